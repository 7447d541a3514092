// Public bug reports about loading experts, as tests; those about cuts are in shard_plan_test.
#include <gtest/gtest.h>

#include "weights/quantized_group.h"

namespace fusedmoe::test {
namespace {

using Experts = std::map<std::int64_t, LoadedExpert>;

Experts load_as(const char* layout, const ExpertSizes& sizes, int tp_rank,
                const std::string& modules = "block.experts.") {
  ParallelLayout parallel;
  parallel.tp_size = 2;
  parallel.tp_rank = tp_rank;
  return load_group(plain_group(disk_layout(layout), sizes, parallel, modules)).experts;
}

// Stacked F8_E4M3 with one scale a block of 128 x 128; either way round.
ExpertGroup stacked_fp8(bool is_transposed) {
  constexpr std::int64_t kExperts = 2, kHidden = 512, kIntermediate = 384, kBlock = 128;
  ExpertGroup group;
  group.sizes = {kExperts, kHidden, kIntermediate, false};
  group.patterns = patterns_of(
      disk_layout(is_transposed ? "stacked_joined_transposed" : "stacked_joined"), false);
  QuantScheme& scheme = group.quant.scheme;
  scheme.payload = PayloadFormat::kF8E4M3;
  scheme.granularity = ScaleGranularity::kBlock;
  scheme.block_n = scheme.block_k = kBlock;
  group.quant.suffixes = {{ParamRole::kWeight, ".weight"},
                          {ParamRole::kWeightScale, ".weight_scale_inv"}};
  const auto add = [&](const std::string& name, std::int64_t n, std::int64_t k) {
    const auto stored = [&](std::int64_t rows, std::int64_t cols, auto number) {
      for (std::int64_t e = 0; e < kExperts; ++e) {
        for (std::int64_t a = 0; a < (is_transposed ? cols : rows); ++a) {
          for (std::int64_t b = 0; b < (is_transposed ? rows : cols); ++b) {
            number(e, is_transposed ? b : a, is_transposed ? a : b);
          }
        }
      }
      return is_transposed ? Shape{kExperts, cols, rows} : Shape{kExperts, rows, cols};
    };
    std::vector<std::uint8_t> codes;
    const Shape shape = stored(n, k, [&](std::int64_t e, std::int64_t r, std::int64_t c) {
      codes.push_back(static_cast<std::uint8_t>((e * 31 + r * 7 + c * 3) % 127));
    });
    std::vector<float> scales;
    const Shape scale_shape =
        stored(n / kBlock, k / kBlock, [&](std::int64_t e, std::int64_t r, std::int64_t c) {
          scales.push_back(static_cast<float>(1 + (e * 16 + r) * 16 + c));
        });
    group.tensors.push_back(made_codes(name + ".weight", shape, codes, DType::kF8E4M3));
    group.tensors.push_back(made_floats(name + ".weight_scale_inv", scale_shape, scales));
  };
  add("block.experts.gate_up_proj", 2 * kIntermediate, kHidden);
  add("block.experts.down_proj", kHidden, kIntermediate);
  return group;
}

TEST(WeightsBugLog, B08_scales_are_turned_with_their_weights) {
  const Experts as_is = load_group(stacked_fp8(false)).experts;
  EXPECT_EQ(as_is.size(), 2U);
  EXPECT_EQ(load_group(stacked_fp8(true)).experts, as_is);
  // w3 of expert 1, row 130, column 260: block row 3 + 1, block column 2, of the joined matrix.
  const double code = e4m3_value((31 + (384 + 130) * 7 + 260 * 3) % 127);
  EXPECT_EQ(as_is.at(1).w3.at(130 * 512 + 260), code * (1 + (16 + 4) * 16 + 2));
}

TEST(WeightsBugLog, B09_hidden_first_and_hidden_last_files_are_equal) {
  for (int rank = 0; rank < 2; ++rank) {
    const ExpertSizes sizes{2, 96, 64, false};
    EXPECT_EQ(load_as("stacked_joined", sizes, rank),
              load_as("stacked_joined_transposed", sizes, rank));
  }
}

TEST(WeightsBugLog, B10_gate_and_up_change_places_with_their_biases) {
  for (int rank = 0; rank < 2; ++rank) {
    const ExpertSizes sizes{2, 6, 8, true};
    EXPECT_EQ(load_as("stacked_joined", sizes, rank),
              load_as("stacked_joined_up_first", sizes, rank));
  }
}

TEST(WeightsBugLog, B11_interleaved_rows_and_halves_are_equal) {
  for (int rank = 0; rank < 2; ++rank) {
    const ExpertSizes sizes{2, 6, 4, true};
    EXPECT_EQ(load_as("stacked_interleaved", sizes, rank), load_as("stacked_joined", sizes, rank));
  }
}

TEST(WeightsBugLog, B30_names_do_not_change_the_layer) {
  for (int rank = 0; rank < 2; ++rank) {
    const ExpertSizes sizes{3, 6, 4, true};
    const Experts expected = load_as("per_expert", sizes, rank, "block.mlp.experts.");
    EXPECT_EQ(load_as("per_expert", sizes, rank, "block.block_sparse_moe.experts."), expected);
    EXPECT_EQ(load_as("stacked_joined", sizes, rank), expected);
    EXPECT_EQ(load_as("stacked_separate", sizes, rank), expected);
  }
}

}  // namespace
}  // namespace fusedmoe::test
