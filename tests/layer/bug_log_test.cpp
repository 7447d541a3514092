// Faults that other MoE layers have had, one test each. Numbers are those of the public reports.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/half.h"
#include "fusedmoe/error.h"
#include "layer/every_kernel.h"
#include "reference/tolerance.h"

namespace fusedmoe::test {
namespace {

constexpr double kSiluOfOne = 0.7310585786300049;

FusedMoEConfig const_config(std::int64_t num_experts = 4, std::int64_t top_k = 1) {
  FusedMoEConfig config;
  config.num_experts = num_experts;
  config.hidden_size = 64;
  config.intermediate_size = 32;
  config.top_k = top_k;
  return config;
}

// Every element of a bf16 row near one value; the rounding points leave at most a few units of
// 2^-9.
void expect_row(const std::vector<double>& result, std::int64_t row, std::int64_t hidden_size,
                double value) {
  for (std::int64_t h = 0; h < hidden_size; ++h) {
    ASSERT_NEAR(result[static_cast<std::size_t>(row * hidden_size + h)], value,
                std::fabs(value) * 0x1p-7)
        << "row " << row << " column " << h;
  }
}

// One expert with one column inside: gate and up are the two weights times the input of ones.
LayerData one_gate(DType dtype, ActivationConfig activation, double gate, double up, double down) {
  FusedMoEConfig config;
  config.num_experts = config.intermediate_size = config.hidden_size = config.top_k = 1;
  config.weight_dtype = DType::kF32;
  config.hidden_dtype = dtype;
  config.activation = activation;
  LayerData data = random_layer(config, 1);
  data.experts[0].w1 = to_bytes(std::vector<double>{gate}, DType::kF32);
  if (activation.is_gated) data.experts[0].w3 = to_bytes(std::vector<double>{up}, DType::kF32);
  data.experts[0].w2 = to_bytes(std::vector<double>{down}, DType::kF32);
  return data;
}

std::vector<double> run_one_gate(PlannedLayer& layer) {
  return layer.run_doubles(constant_batch(layer.layer().config(), 1.0, {0}, {1.0F}));
}

TEST(BugLog, B10_gate_and_up_order) {
  every_kernel(one_gate(DType::kF32, {}, 4.0, 1.0, 1.0), 1, [](PlannedLayer& layer) {
    EXPECT_NEAR(run_one_gate(layer)[0], 3.9280552, 1e-5);  // silu(4) * 1, not silu(1) * 4 = 2.924
  });
}

TEST(BugLog, B34_B35_factor_applied_once) {
  for (const float factor : {1.5F, 2.5F}) {
    FusedMoEConfig config = const_config();
    config.routed_scaling_factor = factor;
    every_kernel(const_expert_layer(config), 4, [&](PlannedLayer& layer) {
      const auto y = layer.run_doubles(constant_batch(config, 1.0, {0, 1, 2, 3}, {1, 1, 1, 1}));
      for (int e = 0; e < 4; ++e) {
        expect_row(y, e, 64, kSiluOfOne * static_cast<double>(factor) * (e + 1));
      }
    });
  }
}

TEST(BugLog, B36_fused_shared_expert_weighs_one) {
  FusedMoEConfig config = const_config(4, 2);
  config.num_fused_shared_experts = 1;
  every_kernel(const_expert_layer(config), 1, [&](PlannedLayer& layer) {
    // 0.4 * 2.5 = 1 of routed expert 2, and 1 of the shared one, which is number 4.
    const auto y = layer.run_doubles(constant_batch(config, 1.0, {2, 4}, {1.0F, 1.0F}));
    expect_row(y, 0, 64, kSiluOfOne * (3 + 5));
  });
}

TEST(BugLog, B37_weight_on_input) {
  FusedMoEConfig config = const_config();
  config.apply_router_weight_on_input = true;
  every_kernel(const_expert_layer(config), 4, [&](PlannedLayer& layer) {
    const auto y =
        layer.run_doubles(constant_batch(config, 1.0, {0, 1, 2, 3}, {0.5F, 0.5F, 0.5F, 0.5F}));
    for (int e = 0; e < 4; ++e) expect_row(y, e, 64, 0.5 * 0.5 / (1.0 + std::exp(-0.5)) * (e + 1));
  });
}

TEST(BugLog, B37_weight_on_input_with_two_experts_is_exact) {
  FusedMoEConfig config = const_config(4, 2);
  config.apply_router_weight_on_input = true;
  every_kernel(const_expert_layer(config), 1, [&](PlannedLayer& layer) {
    const auto y = layer.run_doubles(constant_batch(config, 1.0, {0, 2}, {0.5F, 0.25F}));
    const double half = 0.25 / (1.0 + std::exp(-0.5));
    const double quarter = 0.0625 / (1.0 + std::exp(-0.25));
    expect_row(y, 0, 64, half * 1 + quarter * 3);
  });
}

TEST(BugLog, B44_B62_zero_tokens_with_null_pointers) {
  for (const bool no_combine : {false, true}) {
    FusedMoEConfig config = const_config(4, 2);
    config.no_combine = no_combine;
    every_kernel(const_expert_layer(config), 0, [&](PlannedLayer& layer) {
      const Shape out = no_combine ? Shape{0, 2, 64} : Shape{0, 64};
      EXPECT_EQ(
          layer.layer().forward({nullptr, DType::kBF16, {0, 64}},
                                {{nullptr, DType::kI32, {0, 2}}, {nullptr, DType::kF32, {0, 2}}},
                                {nullptr, DType::kBF16, out}, layer.workspace()),
          ResultState::kReduced);
    });
  }
}

TEST(BugLog, B49_ids_outside_every_expert) {
  const FusedMoEConfig config = const_config(4, 2);
  every_kernel(const_expert_layer(config), 4, [&](PlannedLayer& layer) {
    const auto y = layer.run_doubles(
        constant_batch(config, 1.0, {2, -1, -1, -1, 0, 3, 7, 1}, std::vector<float>(8, 1.0F)));
    expect_row(y, 0, 64, kSiluOfOne * 3);
    expect_row(y, 1, 64, 0.0);
    expect_row(y, 2, 64, kSiluOfOne * 5);
    expect_row(y, 3, 64, kSiluOfOne * 2);
    EXPECT_EQ(layer.layer().num_dropped_ids(), 4);
  });
}

TEST(BugLog, B49_extreme_ids_are_never_an_index) {
  const FusedMoEConfig config = const_config(4, 2);
  const std::int64_t ids[] = {std::int64_t{1} << 32, 1,  // 32 bits of it are expert 0
                              INT64_MIN, INT64_MAX};
  const float weights[] = {1.0F, 1.0F, 1.0F, 1.0F};
  every_kernel(const_expert_layer(config), 2, [&](PlannedLayer& layer) {
    const BatchData batch = constant_batch(config, 1.0, {0, 0, 0, 0}, {1, 1, 1, 1});
    GuardedBytes out(2 * 64 * 2);
    layer.layer().forward(batch.hidden_view(),
                          {{ids, DType::kI64, {2, 2}}, {weights, DType::kF32, {2, 2}}},
                          {out.data(), DType::kBF16, {2, 64}}, layer.workspace());
    const auto y = to_doubles(out.span(), DType::kBF16);
    expect_row(y, 0, 64, kSiluOfOne * 2);
    expect_row(y, 1, 64, 0.0);
    EXPECT_EQ(layer.layer().num_dropped_ids(), 3);
  });
}

TEST(BugLog, B50_sum_over_slots) {
  const FusedMoEConfig config = const_config(4, 2);
  every_kernel(const_expert_layer(config), 3, [&](PlannedLayer& layer) {
    for (std::int64_t t = 1; t <= 3; ++t) {
      std::vector<std::int32_t> ids;
      for (int i = 0; i < t; ++i) ids.insert(ids.end(), {i, i + 1});
      const auto y =
          layer.run_doubles(constant_batch(config, 1.0, ids, std::vector<float>(ids.size(), 0.5F)));
      for (int i = 0; i < t; ++i) expect_row(y, i, 64, kSiluOfOne * 0.5 * (2 * i + 3));
    }
  });
}

TEST(BugLog, B56_views_of_one_fused_tensor) {
  FusedMoEConfig config = const_config(3, 1);
  config.hidden_size = 40;
  config.intermediate_size = 24;
  const LayerData data = random_layer(config, 3);
  const BatchData batch = random_batch(config, {.num_tokens = 16}, 4);
  const std::size_t half = data.experts[0].w1.size();
  std::vector<std::byte> w13(half * 2 * 3);  // [E, 2I, H]
  for (std::size_t e = 0; e < 3; ++e) {
    std::memcpy(w13.data() + e * 2 * half, data.experts[e].w1.data(), half);
    std::memcpy(w13.data() + (e * 2 + 1) * half, data.experts[e].w3.data(), half);
  }
  for (const KernelChoice& kernel : usable_kernels(config)) {
    SCOPED_TRACE(kernel.name);
    FusedMoE layer(config);
    const PlanReport report = layer.plan({.max_num_tokens = 16, .kernel = kernel.name});
    for (std::size_t e = 0; e < 3; ++e) {
      ExpertTensors tensors = ExpertSlice(data, static_cast<std::int64_t>(e)).tensors();
      tensors.w1.data = w13.data() + e * 2 * half;
      tensors.w3.data = w13.data() + (e * 2 + 1) * half;
      layer.load_expert(static_cast<std::int64_t>(e), tensors);
    }
    Workspace workspace(report.workspace_bytes);
    GuardedBytes out(16 * 40 * 2);
    layer.forward(batch.hidden_view(), batch.topk(), {out.data(), DType::kBF16, {16, 40}},
                  workspace);
    const auto expected = PlannedLayer(data, 16, kernel.name).run(batch);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.data()));
  }
}

TEST(BugLog, B58_width_that_no_tile_divides) {
  FusedMoEConfig config = const_config(2, 2);
  config.intermediate_size = 1440;
  const LayerData data = random_layer(config, 5);
  const BatchData batch = random_batch(config, {.num_tokens = 16}, 6);
  const auto expected = naive::forward(to_naive(data), to_naive(batch), naive::Oracle::kRounded);
  every_kernel(data, 16, [&](PlannedLayer& layer) {  // run() fills all scratch with NaN first
    EXPECT_LE(tolerance::norm_error(layer.run_doubles(batch), expected),
              tolerance::against_rounded(DType::kBF16, 1440));
  });
}

TEST(BugLog, B63_every_token_count_to_130) {
  const FusedMoEConfig config = const_config(8, 2);
  every_kernel(const_expert_layer(config), 130, [&](PlannedLayer& layer) {
    for (std::int64_t t = 1; t <= 130; ++t) {
      std::vector<std::int32_t> ids;
      for (std::int64_t i = 0; i < t; ++i) {
        ids.push_back(static_cast<std::int32_t>(1 + i % 7));
        ids.push_back(static_cast<std::int32_t>((i + 3) % 8));
      }
      const auto y =
          layer.run_doubles(constant_batch(config, 1.0, ids, std::vector<float>(ids.size(), 1.0F)));
      for (std::int64_t i = 0; i < t; ++i) {
        expect_row(y, i, 64, kSiluOfOne * static_cast<double>(i % 7 + (i + 3) % 8 + 3));
      }
    }
  });
}

TEST(BugLog, B64_many_experts_and_more_than_256_tokens) {
  for (const std::int64_t num_experts : {128, 129, 512}) {
    FusedMoEConfig config = const_config(num_experts, 1);
    config.hidden_size = 8;
    config.intermediate_size = 8;
    config.hidden_dtype = config.weight_dtype = DType::kF32;
    const LayerData data = const_expert_layer(config);
    every_kernel(data, 1025, [&](PlannedLayer& layer) {
      for (const std::int64_t t : {255, 256, 257, 1025}) {
        std::vector<std::int32_t> ids;
        for (std::int64_t i = 0; i < t; ++i) {
          ids.push_back(static_cast<std::int32_t>(i * 7919 % num_experts));
        }
        const auto y = layer.run_doubles(
            constant_batch(config, 1.0, ids, std::vector<float>(ids.size(), 1.0F)));
        for (std::int64_t i = 0; i < t; ++i) {
          const auto row = static_cast<std::size_t>(i);
          ASSERT_NEAR(y[row * 8] / (kSiluOfOne * (ids[row] + 1)), 1.0, 1e-5) << "token " << i;
        }
      }
    });
  }
}

TEST(BugLog, B66_one_expert_gets_nearly_everything) {
  const FusedMoEConfig config = const_config(4, 1);
  std::vector<std::int32_t> skewed(1000, 0);
  skewed[3] = 1;
  skewed[500] = 2;
  skewed[999] = 3;
  for (const auto& ids : {skewed, std::vector<std::int32_t>(1000, 3)}) {
    every_kernel(const_expert_layer(config), 1000, [&](PlannedLayer& layer) {
      const auto y =
          layer.run_doubles(constant_batch(config, 1.0, ids, std::vector<float>(1000, 1.0F)));
      for (int t = 0; t < 1000; ++t) {
        expect_row(y, t, 64, kSiluOfOne * (ids[static_cast<std::size_t>(t)] + 1));
      }
    });
  }
}

TEST(BugLog, B69_small_outputs_are_compared_by_their_own_size) {
  FusedMoEConfig config = const_config(4, 2);
  LayerData data = random_layer(config, 7);
  for (ExpertData& expert : data.experts) {  // outputs near 1e-5
    std::vector<double> w2 = to_doubles(expert.w2.span(), config.weight_dtype);
    for (double& w : w2) w *= 1e-5;
    expert.w2 = to_bytes(w2, config.weight_dtype);
  }
  const BatchData batch = random_batch(config, {.num_tokens = 32}, 8);
  const auto expected = naive::forward(to_naive(data), to_naive(batch), naive::Oracle::kExact);
  every_kernel(data, 32, [&](PlannedLayer& layer) {
    EXPECT_LE(tolerance::norm_error(layer.run_doubles(batch), expected),
              tolerance::against_exact(DType::kBF16, 64));
  });
}

TEST(BugLog, B72_half_precision_overflow) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    every_kernel(one_gate(dtype, {}, 400.0, 400.0, 1e-3), 1, [&](PlannedLayer& layer) {
      EXPECT_NEAR(run_one_gate(layer)[0], 160.0, dtype == DType::kF32 ? 1e-3 : 1.0);
    });
  }
  // In f16 the activation, 160,000, is beyond the largest number and becomes infinity, as IEEE
  // rounding says: visible, not clipped to a plausible 65.5.
  every_kernel(one_gate(DType::kF16, {}, 400.0, 400.0, 1e-3), 1,
               [](PlannedLayer& layer) { EXPECT_EQ(run_one_gate(layer)[0], HUGE_VAL); });
}

TEST(BugLog, B73_zeros_give_exact_zeros) {
  const FusedMoEConfig config = const_config(2, 2);
  LayerData data = random_layer(config, 9);
  const BatchData zero_rows = constant_batch(config, 0.0, {0, 1, 1, 0}, {0.5F, 0.5F, 0.5F, 0.5F});
  const std::vector<std::byte> zeros(2 * 64 * 2, std::byte{0});
  every_kernel(data, 2, [&](PlannedLayer& layer) { EXPECT_EQ(layer.run(zero_rows), zeros); });
  for (ExpertData& expert : data.experts) {
    for (GuardedBytes* w : {&expert.w1, &expert.w3, &expert.w2})
      std::memset(w->data(), 0, w->size());
  }
  const BatchData batch = random_batch(config, {.num_tokens = 2}, 10);
  every_kernel(data, 2, [&](PlannedLayer& layer) { EXPECT_EQ(layer.run(batch), zeros); });
}

TEST(BugLog, B74_clamps_and_alpha) {
  struct Row {
    ActivationConfig activation;
    double gate, up, expected;
  };
  const ActivationConfig oai{Activation::kSwigluOai, true, 1.702F, 7.0F};
  const ActivationConfig silu{Activation::kSilu, true, 1.702F, 10.0F};
  const Row rows[] = {
      {oai, 9.0, 9.0, 55.9996},
      {oai, -9.0, -9.0, -9.0 / (1.0 + std::exp(1.702 * 9.0)) * -6.0},  // gate has no lower clamp
      {oai, 2.0, 3.0, 2.0 / (1.0 + std::exp(-3.404)) * 4.0},
      {silu, 20.0, -30.0, -99.99546},
      {{Activation::kSilu, true, 1.702F, 0.0F}, 20.0, -30.0, -599.9999988},  // no limit, no clamp
  };
  for (const Row& row : rows) {
    every_kernel(
        one_gate(DType::kF32, row.activation, row.gate, row.up, 1.0), 1, [&](PlannedLayer& layer) {
          EXPECT_NEAR(run_one_gate(layer)[0], row.expected, std::fabs(row.expected) * 1e-5);
        });
  }
}

TEST(BugLog, B74_extreme_gates_stay_finite) {
  for (const double gate : {-200.0, -1e30, -HUGE_VAL}) {
    every_kernel(one_gate(DType::kF32, {}, gate, 1.0, 1.0), 1,
                 [](PlannedLayer& layer) { EXPECT_NEAR(run_one_gate(layer)[0], 0.0, 1e-30); });
  }
}

TEST(BugLog, B75_input_is_unchanged) {
  const FusedMoEConfig config = const_config(4, 2);
  const BatchData batch = random_batch(config, {.num_tokens = 33}, 11);
  const GuardedBytes before = batch.hidden;
  every_kernel(random_layer(config, 12), 33, [&](PlannedLayer& layer) {
    layer.run(batch);
    EXPECT_EQ(std::memcmp(before.data(), batch.hidden.data(), before.size()), 0);
  });
}

TEST(BugLog, B93_ids_of_64_bits) {
  const FusedMoEConfig config = const_config(4, 2);
  const BatchData batch =
      random_batch(config, {.num_tokens = 19, .routing = Routing::kAbsentIds}, 13);
  const std::vector<std::int64_t> wide(batch.topk_ids.begin(), batch.topk_ids.end());
  every_kernel(random_layer(config, 14), 19, [&](PlannedLayer& layer) {
    const std::vector<std::byte> narrow = layer.run(batch);
    GuardedBytes out(narrow.size());
    TopKView topk = batch.topk();
    topk.topk_ids = {wide.data(), DType::kI64, {19, 2}};
    layer.layer().forward(batch.hidden_view(), topk, {out.data(), DType::kBF16, {19, 64}},
                          layer.workspace());
    EXPECT_TRUE(std::equal(narrow.begin(), narrow.end(), out.data()));
  });
}

TEST(BugLog, B108_161_experts_top_9) {
  FusedMoEConfig config = const_config(160, 9);
  config.num_fused_shared_experts = 1;
  config.hidden_size = 32;
  config.intermediate_size = 16;
  const LayerData data = random_layer(config, 15);
  BatchData batch = random_batch(config, {.num_tokens = 16}, 16);
  for (std::size_t s = 8; s < batch.topk_ids.size(); s += 9) batch.topk_ids[s] = 160;
  const auto expected = naive::forward(to_naive(data), to_naive(batch), naive::Oracle::kExact);
  every_kernel(data, 16, [&](PlannedLayer& layer) {
    EXPECT_LE(tolerance::norm_error(layer.run_doubles(batch), expected),
              tolerance::against_exact(DType::kBF16, 32));
  });
}

// Odd width, weights transposed in memory, and a base address that is no multiple of 4.
TEST(BugLog, B111_odd_width_transposed_and_misaligned) {
  FusedMoEConfig config = const_config(1, 1);
  config.hidden_size = 1025;
  config.intermediate_size = 18;
  const LayerData data = random_layer(config, 17);
  const BatchData batch = random_batch(config, {.num_tokens = 3}, 18);
  const auto transpose = [&](const GuardedBytes& from, std::int64_t rows, std::int64_t cols,
                             std::vector<std::byte>& to) {
    to.resize(from.size() + 2);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        std::memcpy(to.data() + 2 + (c * rows + r) * 2, from.data() + (r * cols + c) * 2, 2);
      }
    }
    return MatrixView{to.data() + 2, DType::kBF16, rows, cols, 1, rows};
  };
  std::vector<std::byte> w1, w3, w2;
  const ExpertData& e = data.experts[0];
  const ExpertTensors tensors{transpose(e.w1, 18, 1025, w1),
                              transpose(e.w3, 18, 1025, w3),
                              transpose(e.w2, 1025, 18, w2),
                              {},
                              {},
                              {}};
  for (const KernelChoice& kernel : usable_kernels(config)) {
    SCOPED_TRACE(kernel.name);
    FusedMoE layer(config);
    Workspace workspace(layer.plan({.max_num_tokens = 3, .kernel = kernel.name}).workspace_bytes);
    layer.load_expert(0, tensors);
    std::vector<std::byte> hidden(batch.hidden.size() + 2);
    std::memcpy(hidden.data() + 2, batch.hidden.data(), batch.hidden.size());
    std::vector<std::byte> out(hidden.size());
    layer.forward({hidden.data() + 2, DType::kBF16, {3, 1025}}, batch.topk(),
                  {out.data() + 2, DType::kBF16, {3, 1025}}, workspace);
    const auto expected = PlannedLayer(data, 3, kernel.name).run(batch);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + 2));
  }
}

}  // namespace
}  // namespace fusedmoe::test
