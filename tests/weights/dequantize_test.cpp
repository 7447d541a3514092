// Quantized files through the loader: every number against an independent decoding.
#include "weights/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/half.h"
#include "weights/quantized_group.h"

namespace fusedmoe::test {
namespace {

using testing::expect_error;

// The part of a matrix of the whole model that the rank of `group` has, rounded to its type.
std::vector<float> part_of(const QuantizedGroup& from, const std::string& projection,
                           std::int64_t expert) {
  const ExpertGroup& group = from.group;
  const std::int64_t part = group.sizes.intermediate_size / group.parallel.tp_size;
  const std::int64_t first = part * group.parallel.tp_rank;
  const bool is_down = projection == "down_proj";
  const std::int64_t whole_cols = is_down ? group.sizes.intermediate_size : group.sizes.hidden_size;
  const std::vector<float>& numbers = from.numbers.at({projection, expert});
  std::vector<float> result;
  for (std::int64_t r = 0; r < (is_down ? group.sizes.hidden_size : part); ++r) {
    for (std::int64_t c = 0; c < (is_down ? part : group.sizes.hidden_size); ++c) {
      const std::int64_t row = is_down ? r : first + r;
      const std::int64_t col = is_down ? first + c : c;
      const float number = numbers.at(static_cast<std::size_t>(row * whole_cols + col));
      result.push_back(round_to(number, group.weight_dtype));
    }
  }
  return result;
}

void expect_numbers(const QuantizedGroup& made) {
  const LoadedGroup loaded = load_group(made.group);
  ASSERT_EQ(std::ssize(loaded.experts), made.group.sizes.num_experts);
  for (const auto& [local, expert] : loaded.experts) {
    EXPECT_EQ(expert.w1, part_of(made, "gate_proj", local));
    EXPECT_EQ(expert.w3, part_of(made, "up_proj", local));
    EXPECT_EQ(expert.w2, part_of(made, "down_proj", local));
  }
  EXPECT_LE(loaded.report.peak_staging_bytes, std::uint64_t{256} << 20);
}

TEST(Dequantize, fp8_with_ragged_blocks) {
  QuantizedGroup made = fp8_group(Fp8Scales::kBlock, {2, 20, 12, false});
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    made.group.weight_dtype = dtype;
    expect_numbers(made);
  }
}

TEST(Dequantize, fp8_with_one_scale_or_one_a_row) {
  expect_numbers(fp8_group(Fp8Scales::kTensor, {2, 20, 12, false}));
  expect_numbers(fp8_group(Fp8Scales::kChannel, {2, 20, 12, false}));
}

TEST(Dequantize, every_tensor_parallel_part) {
  for (int rank = 0; rank < 2; ++rank) {
    for (QuantizedGroup made :
         {fp8_group(Fp8Scales::kBlock, {2, 20, 16, false}),
          fp8_group(Fp8Scales::kTensor, {2, 20, 12, false}),
          fp8_group(Fp8Scales::kChannel, {2, 20, 12, false}), mxfp4_group({3, 96, 64, false})}) {
      made.group.parallel.tp_size = 2;
      made.group.parallel.tp_rank = rank;
      expect_numbers(made);
    }
  }
}

TEST(Dequantize, mxfp4_is_exact_in_bf16) {
  QuantizedGroup made = mxfp4_group({3, 96, 32, false});
  expect_numbers(made);
  made.group.weight_dtype = DType::kBF16;
  expect_numbers(made);
}

TEST(Dequantize, mxfp4_in_every_form_of_file) {
  const QuantizedGroup made = mxfp4_group({3, 96, 32, false});
  QuantizedGroup packed = made;
  packed.group.tensor("block.experts.gate_up_proj_blocks").shape = {3, 64, 48};
  packed.group.tensor("block.experts.down_proj_blocks").shape = {3, 96, 16};
  expect_numbers(packed);
  QuantizedGroup elements = made;
  elements.group.tensor("block.experts.gate_up_proj_blocks").shape = {3, 64, 96};
  elements.group.tensor("block.experts.down_proj_blocks").shape = {3, 96, 32};
  for (const char* name : {"block.experts.gate_up_proj_blocks", "block.experts.down_proj_blocks"}) {
    elements.group.tensor(name).dtype = DType::kF4;
  }
  expect_numbers(elements);
}

// The smallest scale is a subnormal number, which must not be taken for zero.
TEST(Dequantize, mxfp4_with_the_smallest_scale) {
  QuantizedGroup made = mxfp4_group({1, 32, 32, false});
  MadeTensor& codes = made.group.tensor("block.experts.down_proj_blocks");
  MadeTensor& scales = made.group.tensor("block.experts.down_proj_scales");
  std::fill(codes.bytes.begin(), codes.bytes.end(), std::byte{0x22});
  std::fill(scales.bytes.begin(), scales.bytes.end(), std::byte{0});
  EXPECT_THAT(load_group(made.group).experts.at(0).w2, ::testing::Each(0x1p-127F));
}

TEST(Dequantize, a_cut_through_a_block_or_group_is_refused) {
  QuantizedGroup blocks = fp8_group(Fp8Scales::kBlock, {2, 20, 24, false});
  QuantizedGroup groups = mxfp4_group({2, 64, 96, false});
  for (const auto& [made, unit] : {std::pair{&blocks, "8"}, std::pair{&groups, "32"}}) {
    made->group.parallel.tp_size = 2;
    expect_error(ErrorCode::kInvalidArgument, {"intermediate_size", "tp_size 2", unit},
                 [&] { load_group(made->group); });
  }
}

TEST(Dequantize, sizes_that_end_inside_a_group_are_refused) {
  ExpertGroup group = mxfp4_group({2, 64, 32, false}).group;
  group.sizes.hidden_size = 80;
  expect_error(ErrorCode::kInvalidArgument, {"hidden_size", "80", "32"},
               [&] { load_group(group); });
}

TEST(Dequantize, a_product_beyond_the_type_is_refused) {
  QuantizedGroup made = fp8_group(Fp8Scales::kTensor, {2, 20, 12, false});
  const std::string name = "block.experts.1.up_proj.weight_scale_inv";
  made.group.tensor(name) = made_floats(name, {1}, {65504.0F});
  made.group.weight_dtype = DType::kF16;
  expect_error(ErrorCode::kCorruptData, {"block.experts.1.up_proj.weight", "F16", "65504"},
               [&] { load_group(made.group); });
}

}  // namespace
}  // namespace fusedmoe::test
