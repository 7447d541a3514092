// MoeBlock over checkpoints that are made here: router, experts, shared expert and its gate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "fusedmoe/error.h"
#include "layer/made_block.h"
#include "reference/tolerance.h"

namespace fusedmoe::test {
namespace {

constexpr double kSiluOfOne = 0.7310585786300049;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

FusedMoEConfig block_config(std::int64_t num_experts = 4, std::int64_t top_k = 2) {
  FusedMoEConfig config;
  config.num_experts = num_experts;
  config.hidden_size = 64;
  config.intermediate_size = 32;
  config.top_k = top_k;
  return config;
}

// Router row e is all `step * e / 64`, so that ones give the logits 0, step, 2 step, ...
MadeBlockData const_block(const FusedMoEConfig& config, double step) {
  MadeBlockData data{const_expert_layer(config), {}, std::nullopt, {}};
  for (std::int64_t i = 0; i < config.num_experts * 64; ++i) {
    data.router.push_back(step * static_cast<double>(i / 64) / 64.0);
  }
  return data;
}

MadeResult run_ones(const MoeBlock& block, const FusedMoEConfig& config, std::int64_t tokens = 1) {
  const BatchData ones = constant_batch(
      config, 1.0, std::vector<std::int32_t>(static_cast<std::size_t>(tokens * config.top_k)), {});
  MoeBlockInputs inputs;
  inputs.hidden_states = ones.hidden_view();
  return run_block(block, inputs);
}

TEST(Block, B01_router_matrix_is_loaded) {
  const MadeBlock made(const_block(block_config(), 1.0));
  const MadeResult result = run_ones(made.load(DType::kBF16, 1), block_config());
  EXPECT_EQ(result.logits, (std::vector<float>{0.0F, 1.0F, 2.0F, 3.0F}));
  EXPECT_EQ(result.ids, (std::vector<std::int32_t>{3, 2}));
  EXPECT_EQ(result.tokens_per_expert, (std::vector<std::int64_t>{0, 0, 1, 1}));
  const double w = 1.0 / (1.0 + std::exp(-1.0));  // softmax of 3 and 2, of their sum
  EXPECT_NEAR(result.weights[0], w, 1e-6);
  EXPECT_NEAR(result.output[0], kSiluOfOne * (4.0 * w + 3.0 * (1.0 - w)), 0.02);
}

// 8.000 and 8.010 are one number in bf16; the second must win.
TEST(Block, B39_logits_stay_in_f32) {
  MadeBlockData data = const_block(block_config(2, 1), 0.0);
  for (std::size_t i = 0; i < 128; ++i) data.router[i] = (i < 64 ? 8.0 : 8.010) / 64.0;
  const MadeBlock made(data);
  const MadeResult result = run_ones(made.load(DType::kBF16, 1), block_config(2, 1));
  EXPECT_EQ(result.ids, (std::vector<std::int32_t>{1}));
  EXPECT_NEAR(result.logits[1] - result.logits[0], 0.010F, 1e-4);
}

TEST(Block, B40_B41_strange_logits_choose_real_experts_and_harm_no_other_row) {
  const FusedMoEConfig config = block_config();
  const MadeBlock made(const_block(config, 1.0));
  const MoeBlock block = made.load(DType::kBF16, 6);
  const std::vector<float> logits{0,     1,     2,     3,      // a sound row
                                  kNaN,  1,     0,     -1,     // the best of the three others
                                  kNaN,  kNaN,  kNaN,  kNaN,   // no finite logit
                                  -kInf, -kInf, -kInf, -kInf,  //
                                  0,     kInf,  0,     0,      //
                                  0,     1,     2,     3};
  const BatchData ones = constant_batch(config, 1.0, std::vector<std::int32_t>(12), {});
  MoeBlockInputs inputs;
  inputs.hidden_states = ones.hidden_view();
  inputs.router_logits = {logits.data(), DType::kF32, {6, 4}};
  const MadeResult result = run_block(block, inputs);
  EXPECT_EQ(result.ids, (std::vector<std::int32_t>{3, 2, 1, 2, 0, 1, 0, 1, 1, 0, 3, 2}));
  const MadeResult sound = run_ones(block, config);
  for (const std::size_t row : {0U, 5U}) {
    EXPECT_EQ(result.output[row * 64], sound.output[0]);
    EXPECT_EQ(result.weights[row * 2], sound.weights[0]);
  }
  EXPECT_NEAR(result.weights[2], 1.0 / (1.0 + std::exp(-1.0)), 1e-6);
  for (const std::size_t slot : {4U, 5U, 6U, 7U}) EXPECT_EQ(result.weights[slot], 0.0F);
  for (const double y : result.output) EXPECT_TRUE(std::isfinite(y));
}

TEST(Block, B75_shared_expert_reads_the_input) {
  const FusedMoEConfig config = block_config();
  FusedMoEConfig f32 = config;
  f32.hidden_dtype = DType::kF32;
  MadeBlockData data = const_block(config, 1.0);
  const double routed = run_ones(MadeBlock(data).load(DType::kF32, 1), f32).output[0];
  FusedMoEConfig shared = config;
  shared.num_experts = shared.top_k = 1;
  data.shared = const_expert_layer(shared);
  const MadeBlock made(data);
  MoeBlock block = made.load(DType::kF32, 1);
  EXPECT_NEAR(run_ones(block, f32).output[0], routed + kSiluOfOne, 1e-5);
  block.set_shared_experts_enabled(false);
  EXPECT_NEAR(run_ones(block, f32).output[0], routed, 1e-6);
}

// The whole block against the double-precision layer, given its own choice of experts.
TEST(Block, AgreesWithTheNaiveLayer) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    FusedMoEConfig config = block_config(8, 3);
    config.hidden_dtype = dtype;
    const MadeBlockData data = random_block(config, 3);
    const MadeBlock made(data);
    const MoeBlock block = made.load(dtype, 32);
    BatchData batch = random_batch(config, {.num_tokens = 32}, 4);
    MoeBlockInputs inputs;
    inputs.hidden_states = batch.hidden_view();
    const MadeResult result = run_block(block, inputs);
    batch.topk_ids = result.ids;
    batch.topk_weights = result.weights;
    naive::Layer layer = to_naive(data.routed);
    layer.shared = to_naive(*data.shared).experts[0];
    layer.shared_activation = layer.activation;
    layer.shared_gate = to_doubles(to_bytes(data.shared_gate, DType::kF32).span(), DType::kF32);
    const auto exact = naive::forward(layer, to_naive(batch), naive::Oracle::kExact);
    EXPECT_LE(tolerance::norm_error(result.output, exact), tolerance::against_exact(dtype, 64));
    for (std::size_t s = 0; s < result.weights.size(); s += 3) {
      EXPECT_NEAR(result.weights[s] + result.weights[s + 1] + result.weights[s + 2], 1.0F, 1e-6F);
    }
  }
}

// Routed weights zero, shared output one: one in every layout, not its size times or its part.
TEST(Block, B81_shared_expert_counts_once_in_every_layout) {
  FusedMoEConfig config = block_config(6, 2);
  config.hidden_dtype = DType::kF32;
  const MadeBlockData data = random_block(config, 5);
  const MadeBlock made(data);
  const BatchData batch = random_batch(config, {.num_tokens = 16}, 6);
  MoeBlockInputs inputs;
  inputs.hidden_states = batch.hidden_view();
  const MadeResult single = run_block(made.load(DType::kF32, 16), inputs);
  EXPECT_EQ(single.state, ResultState::kReduced);
  for (const int tp : {1, 2, 4}) {
    for (const int ep : {1, 2, 3}) {
      if (tp * ep == 1) continue;
      std::vector<double> sum(single.output.size());
      for (int rank = 0; rank < tp * ep; ++rank) {
        ParallelLayout parallel;
        parallel.tp_size = tp;
        parallel.tp_rank = rank % tp;
        parallel.ep_size = ep;
        parallel.ep_rank = rank / tp;
        const MadeResult part = run_block(made.load(DType::kF32, 16, parallel), inputs);
        EXPECT_EQ(part.state, ResultState::kPartial);
        EXPECT_EQ(part.ids, single.ids);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part.output[i];
      }
      EXPECT_LE(tolerance::norm_error(sum, single.output),
                tolerance::against_single_rank(DType::kF32, 64))
          << "tp " << tp << " ep " << ep;
    }
  }
}

TEST(Block, GivenLogitsAndGivenChoiceReplaceTheRouter) {
  const FusedMoEConfig config = block_config(8, 3);
  const MadeBlock made(random_block(config, 7));
  const MoeBlock block = made.load(DType::kBF16, 20);
  const BatchData batch = random_batch(config, {.num_tokens = 20}, 8);
  MoeBlockInputs inputs;
  inputs.hidden_states = batch.hidden_view();
  const MadeResult own = run_block(block, inputs);
  inputs.router_logits = {own.logits.data(), DType::kF32, {20, 8}};
  const MadeResult from_logits = run_block(block, inputs);
  EXPECT_EQ(from_logits.output, own.output);
  EXPECT_EQ(from_logits.ids, own.ids);
  inputs.topk =
      TopKView{{own.ids.data(), DType::kI32, {20, 3}}, {own.weights.data(), DType::kF32, {20, 3}}};
  EXPECT_EQ(run_block(block, inputs).output, own.output);
  inputs.topk = batch.topk();
  const MadeResult foreign = run_block(block, inputs);
  EXPECT_NE(foreign.output, own.output);
  EXPECT_EQ(foreign.ids, batch.topk_ids);
}

TEST(Block, B92_padded_rows_reach_no_expert) {
  const FusedMoEConfig config = block_config(8, 3);
  const MadeBlock made(random_block(config, 9));
  const MoeBlock block = made.load(DType::kBF16, 8);
  const BatchData batch = random_batch(config, {.num_tokens = 8}, 10);
  MoeBlockInputs inputs;
  inputs.hidden_states = batch.hidden_view();
  const MadeResult all = run_block(block, inputs);
  inputs.num_tokens_non_padded = 5;
  const MadeResult padded = run_block(block, inputs);
  EXPECT_EQ(std::accumulate(padded.tokens_per_expert.begin(), padded.tokens_per_expert.end(),
                            std::int64_t{0}),
            5 * 3);
  for (std::size_t s = 0; s < 24; ++s) {
    EXPECT_EQ(padded.ids[s], s < 15 ? all.ids[s] : -1);
    EXPECT_EQ(padded.weights[s], s < 15 ? all.weights[s] : 0.0F);
  }
  EXPECT_TRUE(std::equal(all.output.begin(), all.output.begin() + 5 * 64, padded.output.begin()));
}

TEST(Block, B44_zero_tokens) {
  const MadeBlock made(random_block(block_config(), 11));
  const MoeBlock block = made.load(DType::kBF16, 4);
  Workspace workspace(block.plan_report().workspace_bytes);
  MoeBlockInputs inputs;
  inputs.hidden_states = {nullptr, DType::kBF16, {0, 64}};
  EXPECT_EQ(block.forward(inputs, {nullptr, DType::kBF16, {0, 64}}, workspace),
            ResultState::kReduced);
}

TEST(Block, WrongInputsAreErrors) {
  const MadeBlock made(random_block(block_config(), 12));
  const MoeBlock block = made.load(DType::kBF16, 4);
  const BatchData batch = random_batch(block_config(), {.num_tokens = 5}, 13);
  const auto message = [&](const MoeBlockInputs& inputs) -> std::string {
    try {
      run_block(block, inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "no error";
  };
  MoeBlockInputs inputs;
  inputs.hidden_states = batch.hidden_view();
  EXPECT_THAT(message(inputs),
              testing::AllOf(testing::HasSubstr("4 tokens"), testing::HasSubstr("5")));
  inputs.hidden_states.shape = {4, 64};
  EXPECT_EQ(message(inputs), "no error");
  inputs.router_logits = {batch.topk_weights.data(), DType::kF32, {4, 3}};
  EXPECT_THAT(message(inputs),
              testing::AllOf(testing::HasSubstr("router_logits"), testing::HasSubstr("[4, 4]"),
                             testing::HasSubstr("[4, 3]")));
  inputs.router_logits = {};
  inputs.hidden_states.dtype = DType::kF16;
  EXPECT_THAT(message(inputs),
              testing::AllOf(testing::HasSubstr("BF16"), testing::HasSubstr("F16")));
}

}  // namespace
}  // namespace fusedmoe::test
