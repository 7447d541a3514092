// Every recorded MoE block through MoeBlock, with every kernel, in f32 and bf16.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fusedmoe/layer.h"
#include "golden/golden_data.h"
#include "reference/case_table.h"
#include "reference/planned_layer.h"
#include "reference/tolerance.h"

namespace fusedmoe::test {
namespace {

struct BlockResult {
  std::vector<float> logits, weights;
  std::vector<std::int32_t> ids;
  std::vector<std::byte> bytes;
  std::vector<double> output;
};

// A block of a recorded model, planned and loaded.
class GoldenBlock {
 public:
  GoldenBlock(const Checkpoint& checkpoint, const MoeLayerDescription& description, DType dtype,
              const std::string& kernel, std::int64_t max_num_tokens, int num_threads = 2)
      : block_(description, dtype), dtype_(dtype) {
    block_.plan({.max_num_tokens = max_num_tokens,
                 .executor = &shared_pool(num_threads),
                 .kernel = kernel});
    report_ = block_.load(checkpoint);
    workspace_ = std::make_unique<Workspace>(block_.plan_report().workspace_bytes);
  }

  MoeBlock& block() { return block_; }
  const LoadReport& load_report() const { return report_; }

  BlockResult run(const GoldenLayer& golden, std::int64_t first, std::int64_t count) {
    const std::int64_t h = golden.hidden_size;
    const std::vector<double> rows(golden.input.begin() + first * h,
                                   golden.input.begin() + (first + count) * h);
    const GuardedBytes input = to_bytes(rows, dtype_);
    BlockResult result;
    result.logits.resize(static_cast<std::size_t>(count * golden.num_experts));
    result.weights.resize(static_cast<std::size_t>(count * golden.top_k));
    result.ids.resize(result.weights.size());
    result.bytes.resize(input.size());
    MoeBlockInputs inputs;
    inputs.hidden_states = {input.data(), dtype_, {count, h}};
    if (!golden.input_ids.empty()) {
      inputs.input_ids = {golden.input_ids.data() + first, DType::kI32, {count}};
    }
    std::fill(workspace_->memory().begin(), workspace_->memory().end(), std::byte{0xFF});
    block_.forward(inputs, {result.bytes.data(), dtype_, {count, h}}, *workspace_,
                   {result.logits, result.ids, result.weights, {}});
    result.output = to_doubles(result.bytes, dtype_);
    return result;
  }
  BlockResult run(const GoldenLayer& golden) { return run(golden, 0, golden.num_tokens); }

 private:
  MoeBlock block_;
  DType dtype_;
  LoadReport report_;
  std::unique_ptr<Workspace> workspace_;
};

template <class T>
std::vector<T> row_of(const std::vector<T>& values, std::int64_t row, std::int64_t width) {
  return {values.begin() + row * width, values.begin() + (row + 1) * width};
}

// (id, weight) of a token, by id.
std::vector<std::pair<std::int32_t, float>> choice(const std::vector<std::int32_t>& ids,
                                                   const std::vector<float>& weights,
                                                   std::int64_t row, std::int64_t top_k) {
  std::vector<std::pair<std::int32_t, float>> pairs;
  for (std::int64_t s = row * top_k; s < (row + 1) * top_k; ++s) {
    pairs.emplace_back(ids[static_cast<std::size_t>(s)], weights[static_cast<std::size_t>(s)]);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// Weights as sets; tokens whose experts are other ones than recorded.
std::int64_t compare_choices(const GoldenLayer& golden, const BlockResult& result, double tolerance,
                             std::vector<bool>& same) {
  same.assign(static_cast<std::size_t>(golden.num_tokens), true);
  for (std::int64_t t = 0; t < golden.num_tokens; ++t) {
    const auto ours = choice(result.ids, result.weights, t, golden.top_k);
    const auto theirs = choice(golden.topk_ids, golden.topk_weights, t, golden.top_k);
    std::vector<float> a, b;
    for (std::size_t j = 0; j < ours.size(); ++j) {
      if (ours[j].first != theirs[j].first) same[static_cast<std::size_t>(t)] = false;
      a.push_back(ours[j].second);
      b.push_back(theirs[j].second);
    }
    if (same[static_cast<std::size_t>(t)]) {
      EXPECT_LE(tolerance::row_error(a, b), tolerance) << "weights of token " << t;
    }
  }
  return std::count(same.begin(), same.end(), false);
}

double worst_row(const GoldenLayer& golden, const std::vector<double>& ours,
                 const std::vector<float>& recorded, const std::vector<bool>& counted) {
  double worst = 0.0;
  for (std::int64_t t = 0; t < golden.num_tokens; ++t) {
    if (!counted[static_cast<std::size_t>(t)]) continue;
    worst = std::max(worst, tolerance::row_error(row_of(ours, t, golden.hidden_size),
                                                 row_of(recorded, t, golden.hidden_size)));
  }
  return worst;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  Golden() : checkpoint_(Checkpoint::open(golden_path(GetParam()))) {}

  void SetUp() override {
    model_ = describe_model(checkpoint_);
    golden_ = read_golden(GetParam());
    ASSERT_FALSE(golden_.empty());
    ASSERT_EQ(model_.layers.size(), golden_.size());
  }

  static std::vector<KernelChoice> kernels(const MoeLayerDescription& d, DType dtype) {
    FusedMoEConfig config;
    config.num_experts = d.num_experts;
    config.hidden_size = d.hidden_size;
    config.intermediate_size = d.intermediate_size;
    config.top_k = d.routing.top_k;
    config.weight_dtype = d.weight_dtype;
    config.hidden_dtype = dtype;
    config.activation = d.activation;
    config.has_bias = d.has_expert_bias;
    return usable_kernels(config);
  }

  // Runs `body(golden, block)` for every layer and kernel.
  template <class Body>
  void every_block(DType dtype, const Body& body) {
    for (std::size_t i = 0; i < golden_.size(); ++i) {
      const MoeLayerDescription& d = model_.layers[i];
      ASSERT_EQ(d.layer_index, golden_[i].layer);
      for (const KernelChoice& kernel : kernels(d, dtype)) {
        SCOPED_TRACE(fmt::format("layer {} with {}", d.layer_index, kernel.name));
        GoldenBlock block(checkpoint_, d, dtype, kernel.name, golden_[i].num_tokens);
        body(golden_[i], block);
      }
    }
  }

  Checkpoint checkpoint_;
  ModelDescription model_;
  std::vector<GoldenLayer> golden_;
};

TEST_P(Golden, F32) {
  const double bound = tolerance::golden_row(DType::kF32);
  every_block(DType::kF32, [&](const GoldenLayer& golden, GoldenBlock& block) {
    EXPECT_TRUE(block.load_report().missing.empty());
    EXPECT_TRUE(block.load_report().unused.empty());
    const BlockResult result = block.run(golden);
    for (std::int64_t t = 0; t < golden.num_tokens; ++t) {
      EXPECT_LE(tolerance::row_error(row_of(result.logits, t, golden.num_experts),
                                     row_of(golden.router_logits, t, golden.num_experts)),
                bound)
          << "logits of token " << t;
    }
    std::vector<bool> same;
    EXPECT_EQ(compare_choices(golden, result, bound, same), 0) << "tokens chose other experts";
    EXPECT_LE(worst_row(golden, result.output, golden.output, same), bound);
    if (golden.routed_only.empty()) return;
    block.block().set_shared_experts_enabled(false);
    EXPECT_LE(worst_row(golden, block.run(golden).output, golden.routed_only, same), bound)
        << "without the shared expert";
  });
}

TEST_P(Golden, BF16) {
  every_block(DType::kBF16, [&](const GoldenLayer& golden, GoldenBlock& block) {
    const BlockResult result = block.run(golden);
    std::vector<bool> same;
    // Logits stay f32, so the input alone is rounded: exact in bf16 but for the trained model.
    EXPECT_LE(compare_choices(golden, result, tolerance::golden_row(DType::kBF16), same),
              golden.num_tokens / 16)
        << "tokens chose other experts";
    EXPECT_LE(worst_row(golden, result.output, golden.output, same),
              tolerance::golden_row(DType::kBF16));
  });
}

// Router, routing, experts, shared expert and its gate together: a token alone, on one thread,
// gives the bits that it gives among others on three.
TEST_P(Golden, RowsDoNotDependOnTheBatch) {
  for (std::size_t i = 0; i < golden_.size(); ++i) {
    const GoldenLayer& golden = golden_[i];
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      GoldenBlock together(checkpoint_, model_.layers[i], dtype, "", golden.num_tokens, 3);
      GoldenBlock alone(checkpoint_, model_.layers[i], dtype, "", 1, 1);
      const BlockResult all = together.run(golden);
      for (std::int64_t t = 0; t < golden.num_tokens; t += 7) {
        const BlockResult one = alone.run(golden, t, 1);
        EXPECT_EQ(one.bytes, take_rows(all.bytes, golden.num_tokens, t)) << "token " << t;
        EXPECT_EQ(one.logits, row_of(all.logits, t, golden.num_experts));
        EXPECT_EQ(one.ids, row_of(all.ids, t, golden.top_k));
        EXPECT_EQ(one.weights, row_of(all.weights, t, golden.top_k));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(golden_folders()),
                         [](const auto& one) { return one.param; });

TEST(GoldenFolders, AllAreThere) { EXPECT_EQ(golden_folders().size(), 33U); }

}  // namespace
}  // namespace fusedmoe::test
