// The layer of every rank of a tensor- and expert-parallel grid, one after the other in one
// process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layer/every_kernel.h"
#include "reference/tolerance.h"

namespace fusedmoe::test {
namespace {

constexpr std::int64_t kTokens = 16;

FusedMoEConfig grid_config(DType dtype) {
  FusedMoEConfig config;
  config.num_experts = 7;  // no multiple of 2 or 3
  config.hidden_size = 40;
  config.intermediate_size = 24;
  config.top_k = 3;
  config.weight_dtype = config.hidden_dtype = dtype;
  config.has_bias = true;
  return config;
}

LayerData of_rank(const LayerData& data, int tp_size, int tp_rank, int ep_size, int ep_rank) {
  LayerData rank = data;
  rank.config.parallel.tp_size = tp_size;
  rank.config.parallel.tp_rank = tp_rank;
  rank.config.parallel.ep_size = ep_size;
  rank.config.parallel.ep_rank = ep_rank;
  return rank;
}

std::vector<double> sum_over_ranks(const LayerData& data, const BatchData& batch, int tp, int ep,
                                   const std::string& kernel) {
  std::vector<double> sum(static_cast<std::size_t>(kTokens * data.config.hidden_size));
  for (int t = 0; t < tp; ++t) {
    for (int e = 0; e < ep; ++e) {
      PlannedLayer rank(of_rank(data, tp, t, ep, e), kTokens, kernel);
      const std::vector<double> part = rank.run_doubles(batch);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
  }
  return sum;
}

class Grid : public testing::TestWithParam<std::tuple<int, int, DType>> {};

TEST_P(Grid, PartialResultsAddUp) {
  const auto [tp, ep, dtype] = GetParam();
  FusedMoEConfig config = grid_config(dtype);
  for (const bool special : {false, true}) {
    if (special) {
      config.num_fused_shared_experts = 1;
      config.num_identity_experts = 2;
      config.routed_scaling_factor = 2.5F;
    }
    const LayerData data = random_layer(config, 1);
    const BatchData batch = random_batch(config, {.num_tokens = kTokens}, 2);
    for (const KernelChoice& kernel : usable_kernels(config)) {
      SCOPED_TRACE(fmt::format("{}{}", kernel.name, special ? ", shared and identity" : ""));
      const auto single = PlannedLayer(data, kTokens, kernel.name).run_doubles(batch);
      const auto sum = sum_over_ranks(data, batch, tp, ep, kernel.name);
      EXPECT_LE(tolerance::norm_error(sum, single), tolerance::against_single_rank(dtype, 40));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Grid,
                         testing::Combine(testing::Values(1, 2, 4), testing::Values(1, 2, 3),
                                          testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& one) {
                           return fmt::format("tp{}_ep{}_{}", std::get<0>(one.param),
                                              std::get<1>(one.param),
                                              dtype_name(std::get<2>(one.param)));
                         });

// Weighted slots of the ranks, put together, are those of one rank, bit by bit: each slot is filled
// on exactly one rank and zero on the others.
TEST(ExpertParallel, SlotsAreBitEqualToOneRank) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    FusedMoEConfig config = grid_config(dtype);
    config.no_combine = true;
    config.num_identity_experts = 1;
    const LayerData data = random_layer(config, 3);
    const BatchData batch =
        random_batch(config, {.num_tokens = kTokens, .routing = Routing::kAbsentIds}, 4);
    for (const KernelChoice& kernel : usable_kernels(config)) {
      const auto single = PlannedLayer(data, kTokens, kernel.name).run(batch);
      for (const int ep : {2, 3}) {
        SCOPED_TRACE(fmt::format("{} ep {}", kernel.name, ep));
        std::vector<std::byte> joined(single.size(), std::byte{0});
        for (int rank = 0; rank < ep; ++rank) {
          PlannedLayer layer(of_rank(data, 1, 0, ep, rank), kTokens, kernel.name);
          const auto part = layer.run(batch);
          for (std::int64_t s = 0; s < kTokens * config.top_k; ++s) {
            const auto row = take_rows(part, kTokens * config.top_k, s);
            if (std::all_of(row.begin(), row.end(),
                            [](std::byte b) { return b == std::byte{0}; })) {
              continue;
            }
            const auto to = joined.begin() + s * static_cast<std::ptrdiff_t>(row.size());
            EXPECT_TRUE(std::all_of(to, to + static_cast<std::ptrdiff_t>(row.size()),
                                    [](std::byte b) { return b == std::byte{0}; }))
                << "slot " << s << " is filled on two ranks";
            std::copy(row.begin(), row.end(), to);
          }
        }
        EXPECT_EQ(joined, single);
      }
    }
  }
}

// B79: global ids on every rank, not on the first only. B28: local numbering is not global.
TEST(ExpertParallel, B79_B28_each_rank_alone) {
  FusedMoEConfig config;
  config.num_experts = 8;
  config.hidden_size = 64;
  config.intermediate_size = 32;
  config.top_k = 1;
  config.hidden_dtype = config.weight_dtype = DType::kF32;
  const LayerData data = const_expert_layer(config);
  const std::vector<std::int32_t> ids{2, 3, 0, 5, 2, 7};
  const BatchData batch = constant_batch(config, 1.0, ids, std::vector<float>(6, 1.0F));
  for (int rank = 0; rank < 4; ++rank) {
    PlannedLayer layer(of_rank(data, 1, 0, 4, rank), 6);
    const auto y = layer.run_doubles(batch);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      const double expected = ids[t] / 2 == rank ? (ids[t] + 1) / (1.0 + std::exp(-1.0)) : 0.0;
      EXPECT_NEAR(y[t * 64], expected, 1e-5) << "rank " << rank << " token " << t;
    }
    EXPECT_EQ(layer.layer().num_dropped_ids(), 0) << "ids of other ranks are not strange";
  }
}

TEST(ExpertParallel, B80_the_result_says_whether_it_is_complete) {
  const LayerData data = random_layer(grid_config(DType::kBF16), 5);
  const BatchData batch = random_batch(data.config, {.num_tokens = kTokens}, 6);
  std::vector<std::byte> out(static_cast<std::size_t>(kTokens * 40 * 2));
  const auto state = [&](int tp, int ep) {
    PlannedLayer layer(of_rank(data, tp, 0, ep, 0), kTokens);
    return layer.layer().forward(batch.hidden_view(), batch.topk(),
                                 {out.data(), DType::kBF16, {kTokens, 40}}, layer.workspace());
  };
  EXPECT_EQ(state(1, 1), ResultState::kReduced);
  EXPECT_EQ(state(2, 1), ResultState::kPartial);
  EXPECT_EQ(state(1, 3), ResultState::kPartial);
}

TEST(ExpertParallel, LocalSizesAreThoseOfTheRank) {
  const LayerData data = random_layer(grid_config(DType::kBF16), 7);
  std::int64_t total = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const FusedMoE layer(of_rank(data, 2, 1, 3, rank).config);
    EXPECT_EQ(layer.intermediate_size_per_partition(), 12);
    total += layer.num_local_experts();
  }
  EXPECT_EQ(total, 7);
}

// A hot expert in several places is still computed once.
TEST(ExpertParallel, ReplicatedExpertsCountOnce) {
  FusedMoEConfig config = grid_config(DType::kF32);
  config.num_experts = 4;
  const LayerData data = random_layer(config, 8);
  const BatchData batch = random_batch(config, {.num_tokens = kTokens}, 9);
  const auto single = PlannedLayer(data, kTokens).run_doubles(batch);
  std::vector<double> sum(single.size());
  for (int rank = 0; rank < 2; ++rank) {
    LayerData part = of_rank(data, 1, 0, 2, rank);
    part.config.parallel.physical_to_logical = {1, 0, 3, 2, 3, 1};
    const auto y = PlannedLayer(part, kTokens).run_doubles(batch);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += y[i];
  }
  EXPECT_LE(tolerance::norm_error(sum, single), tolerance::against_single_rank(DType::kF32, 40));
}

}  // namespace
}  // namespace fusedmoe::test
