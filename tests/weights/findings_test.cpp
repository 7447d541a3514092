// Known faults of MoE weight loaders, by number: each is refused with its facts, handled right, or
// cannot arise, with the reason. The table is complete.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "quant/announce.h"
#include "weights/quantized_group.h"

namespace fusedmoe::test {
namespace {

using testing::expect_error;

constexpr int kNumFindings = 42;
const ExpertSizes kSizes{4, 12, 10, false};
const ExpertSizes kBiased{4, 12, 10, true};
const ExpertSizes kFp8Sizes{2, 20, 12, false};
const ExpertSizes kMxfp4Sizes{2, 64, 32, false};

ExpertGroup plain() { return plain_group(disk_layout("per_expert"), kSizes); }
ExpertGroup fp8(Fp8Scales scales) { return fp8_group(scales, kFp8Sizes).group; }
ExpertGroup mxfp4() { return mxfp4_group(kMxfp4Sizes).group; }

ExpertGroup with_extra(ExpertGroup group, const std::string& name) {
  group.tensors.push_back(made_floats(name, {1}, {1.0F}));
  return group;
}

ExpertGroup without(ExpertGroup group, const std::string& name) {
  group.remove(name);
  return group;
}

// Replaces a tensor by zeros of another shape or type.
ExpertGroup with_zeros(ExpertGroup group, const std::string& name, const Shape& shape,
                       DType dtype = DType::kF32) {
  const std::int64_t bits = shape.num_elements() * dtype_bits(dtype);
  group.tensor(name) = {name, dtype, shape, std::vector<std::byte>(std::size_t(bits) / 8)};
  return group;
}

ExpertGroup with_scale(Fp8Scales scales, float value) {
  ExpertGroup group = fp8(scales);
  MadeTensor& tensor = group.tensor("block.experts.1.up_proj.weight_scale_inv");
  const std::vector<float> numbers(static_cast<std::size_t>(tensor.shape.num_elements()), value);
  tensor = made_floats(tensor.name, tensor.shape, numbers);
  return group;
}

ExpertGroup with_byte(ExpertGroup group, const std::string& name, std::size_t at, int byte) {
  group.tensor(name).bytes.at(at) = static_cast<std::byte>(byte);
  return group;
}

// A fault that a file has, and what the error must say.
struct Refused {
  const char* id;
  const char* what;
  std::function<ExpertGroup()> broken;
  std::vector<std::string> facts;
};

const std::string kGate0 = "block.experts.0.gate_proj.weight";
const std::string kUp1Scale = "block.experts.1.up_proj.weight_scale_inv";
const std::string kUp1 = "block.experts.1.up_proj.weight";

const Refused kRefused[] = {
    {"D01",
     "a name that nothing maps",
     [] { return with_extra(plain(), "block.experts.0.foo_proj.weight"); },
     {"unused", "block.experts.0.foo_proj.weight"}},
    {"D02",
     "one row for a matrix",
     [] {
       return with_zeros(plain(), kGate0, {1, 12});
     },
     {kGate0, "expected [10, 12]", "got [1, 12]"}},
    {"D02",
     "one number for a matrix",
     [] { return with_zeros(plain(), kGate0, {1}); },
     {kGate0, "expected [10, 12]", "got [1]"}},
    {"D03",
     "more rows than the config says",
     [] {
       return with_zeros(plain(), kGate0, {12, 12});
     },
     {kGate0, "expected [10, 12]", "got [12, 12]"}},
    {"D04",
     "fewer rows than the config says",
     [] {
       return with_zeros(plain(), kGate0, {8, 12});
     },
     {kGate0, "expected [10, 12]", "got [8, 12]"}},
    {"D05",
     "8-bit codes for plain weights",
     [] {
       return with_zeros(plain(), kGate0, {10, 12}, DType::kF8E4M3);
     },
     {kGate0, "BF16", "got [10, 12] F8_E4M3"}},
    {"D05",
     "plain weights for 8-bit codes",
     [] {
       return with_zeros(fp8(Fp8Scales::kBlock), "block.experts.0.gate_proj.weight", {12, 20},
                         DType::kBF16);
     },
     {kGate0, "F8_E4M3", "got [12, 20] BF16"}},
    {"D05",
     "bytes for 8-bit codes",
     [] {
       return with_zeros(fp8(Fp8Scales::kBlock), kGate0, {12, 20}, DType::kU8);
     },
     {kGate0, "F8_E4M3", "got [12, 20] U8"}},
    {"D06",
     "an expert beyond the last",
     [] { return with_extra(plain(), "block.experts.4.gate_proj.weight"); },
     {"unused", "block.experts.4.gate_proj.weight"}},
    {"D07",
     "expert 0 is an expert as any other",
     [] { return without(plain(), kGate0); },
     {"missing", kGate0, "expert 0"}},
    {"D08",
     "a tensor of all experts for one",
     [] {
       return with_zeros(plain(), kGate0, {4, 10, 12});
     },
     {kGate0, "expected [10, 12]", "got [4, 10, 12]"}},
    {"D09",
     "a negative expert",
     [] { return with_extra(plain(), "block.experts.-1.gate_proj.weight"); },
     {"unused", "block.experts.-1.gate_proj.weight"}},
    {"D10",
     "the input scale of w3 does not stand in for that of w1",
     [] { return without(fp8(Fp8Scales::kTensor), "block.experts.0.gate_proj.input_scale"); },
     {"missing", "block.experts.0.gate_proj.input_scale", "w1"}},
    {"D14",
     "a missing scale",
     [] { return without(fp8(Fp8Scales::kBlock), kUp1Scale); },
     {"missing", kUp1Scale, "expert 1", "w3"}},
    {"D15",
     "a tensor in two files",
     [] {
       ExpertGroup group = plain();
       group.tensors.push_back(group.tensor(kGate0));
       group.num_files = static_cast<int>(group.tensors.size());
       return group;
     },
     {kGate0}},
    {"D17",
     "a down bias that is a matrix",
     [] {
       return with_zeros(plain_group(disk_layout("per_expert"), kBiased),
                         "block.experts.0.down_proj.bias", {12, 1});
     },
     {"block.experts.0.down_proj.bias", "expected [12]", "got [12, 1]"}},
    {"D22",
     "a whole file called presharded",
     [] {
       ExpertGroup group = plain();
       group.parallel.tp_size = 2;
       group.parallel.tp_rank = 1;
       group.parallel.presharded = true;
       return group;
     },
     {kGate0, "expected [5, 12]", "got [10, 12]", "rank 1/2"}},
    {"D24",
     "two numbers for the scale of a tensor",
     [] { return with_zeros(fp8(Fp8Scales::kTensor), kUp1Scale, {2}); },
     {kUp1Scale, "expected [1]", "got [2]"}},
    {"D24",
     "no number for the scale of a tensor",
     [] { return with_zeros(fp8(Fp8Scales::kTensor), kUp1Scale, {0}); },
     {kUp1Scale, "expected [1]", "got [0]"}},
    {"D28",
     "zero points of a symmetric scheme",
     [] {
       return with_extra(fp8(Fp8Scales::kBlock), "block.experts.0.gate_proj.weight_zero_point");
     },
     {"unused", "block.experts.0.gate_proj.weight_zero_point"}},
    {"D30",
     "a scale that nothing reads",
     [] { return with_extra(plain(), "block.experts.0.gate_proj.weight_scale"); },
     {"unused", "block.experts.0.gate_proj.weight_scale"}},
    {"D30",
     "a bias that nothing reads",
     [] { return with_extra(plain(), "block.experts.0.gate_proj.bias"); },
     {"unused", "block.experts.0.gate_proj.bias"}},
    {"D33",
     "an up projection of an expert without gate",
     [] {
       return with_extra(plain_group(disk_layout("per_expert_non_gated"), kSizes),
                         "block.experts.0.gate_proj.weight");
     },
     {"unused", "block.experts.0.gate_proj.weight"}},
    {"D34",
     "a shared expert's name holds that of an expert",
     [] {
       ExpertGroup group = plain();
       group.tensor(kGate0).name = "block.shared_experts.0.gate_proj.weight";
       return group;
     },
     {"missing", kGate0, "unused", "block.shared_experts.0.gate_proj.weight"}},
    {"D36",
     "a scale of NaN",
     [] { return with_scale(Fp8Scales::kBlock, std::numeric_limits<float>::quiet_NaN()); },
     {kUp1, "expert 1", "w3", "scale", "> 0", "nan"}},
    {"D36",
     "an infinite scale",
     [] { return with_scale(Fp8Scales::kTensor, std::numeric_limits<float>::infinity()); },
     {kUp1, "expert 1", "scale", "finite", "inf"}},
    {"D36",
     "a negative scale",
     [] { return with_scale(Fp8Scales::kBlock, -0.5F); },
     {kUp1, "expert 1", "scale", "> 0", "-0.5"}},
    {"D36",
     "a zero scale over numbers",
     [] { return with_scale(Fp8Scales::kChannel, 0.0F); },
     {kUp1, "expert 1", "scale", "> 0", "got 0"}},
    {"D36",
     "a zero input scale",
     [] {
       ExpertGroup group = fp8(Fp8Scales::kTensor);
       const std::string name = "block.experts.1.down_proj.input_scale";
       group.tensor(name) = made_floats(name, {1}, {0.0F});
       return group;
     },
     {"block.experts.1.down_proj.input_scale", "> 0", "got 0"}},
    {"D37",
     "a scale exponent of 255",
     [] { return with_byte(mxfp4(), "block.experts.down_proj_scales", 64 + 3, 0xFF); },
     {"block.experts.down_proj", "expert 1", "w2", "[3, 0]", "nan"}},
    {"D38",
     "a code that is NaN",
     [] { return with_byte(fp8(Fp8Scales::kBlock), kUp1, 43, 0xFF); },
     {kUp1, "expert 1", "[2, 3]", "nan"}},
    {"D42",
     "a scale for each row without its axis",
     [] { return with_zeros(fp8(Fp8Scales::kChannel), kUp1Scale, {12}); },
     {kUp1Scale, "expected [12, 1]", "got [12]"}},
};

// A layout that a naive loader gets wrong, and ours right.
struct Handled {
  const char* id;
  const char* what;
  std::function<ExpertGroup()> group;
};

ExpertGroup on_rank(const char* layout, int tp_rank, int ep_rank, bool presharded = false) {
  ParallelLayout parallel;
  parallel.tp_size = 2;
  parallel.tp_rank = tp_rank;
  parallel.ep_size = 2;
  parallel.ep_rank = ep_rank;
  parallel.presharded = presharded;
  return plain_group(disk_layout(layout), kBiased, parallel);
}

const Handled kHandled[] = {
    {"D16", "words of other roles in a module's path",
     [] {
       return plain_group(disk_layout("per_expert"), kBiased, {},
                          "block.upscale.zero_point.offset_bias.input_scale.experts.");
     }},
    {"D18", "the down bias on a later rank is zero", [] { return on_rank("per_expert", 1, 0); }},
    {"D19", "halves are parted before they are cut",
     [] { return on_rank("stacked_joined", 1, 0); }},
    {"D20", "a rank's experts of a stack", [] { return on_rank("stacked_joined", 0, 1); }},
    {"D23", "presharded and transposed",
     [] { return on_rank("stacked_joined_transposed", 1, 1, true); }},
    {"D33", "experts without gate", [] { return on_rank("stacked_non_gated", 1, 1); }},
};

// Formats in which a finding arises, all refused by name when the config announces them.
struct RefusedFormat {
  const char* id;
  const char* config;
  const char* name;
};

const RefusedFormat kRefusedFormats[] = {
    {"D11", R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true})", "gptq"},
    {"D12", R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})", "modelopt"},
    {"D13", R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})",
     "compressed-tensors"},
    {"D21", R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true})", "gptq"},
    {"D29", R"({"quant_method": "gptq", "bits": 4, "sym": false})", "gptq"},
};

// Covered where the part is tested that sees it, or impossible.
struct Elsewhere {
  const char* id;
  const char* reason;
};

const Elsewhere kElsewhere[] = {
    {"D25", "no method wraps another: the scheme is a value that the loader reads itself"},
    {"D26", "experts are not split between devices in this version"},
    {"D27", "input scales are checked one by one and never compared with each other"},
    {"D31", "which modules are left plain is decided with the config: tests/checkpoint"},
    {"D32", "activations are not quantized: weights are multiplied dequantized"},
    {"D35", "no loader's matter: FusedMoEConfig refuses the combination, as a test below shows"},
    {"D39", "layers beyond the model are counted when the config is read: tests/checkpoint"},
    {"D40", "parameters exist only as packed bytes in host memory"},
    {"D41", "each projection has its own tensor of scales; dequantize_test has ragged blocks"},
};

template <class Row>
std::string row_name(const ::testing::TestParamInfo<Row>& test) {
  return fmt::format("{}_{}", test.param.id, test.index);
}

class RefusedFinding : public ::testing::TestWithParam<Refused> {};
TEST_P(RefusedFinding, is_an_error_with_its_facts) {
  SCOPED_TRACE(GetParam().what);
  expect_error(ErrorCode::kCorruptData, GetParam().facts, [] { load_group(GetParam().broken()); });
}
INSTANTIATE_TEST_SUITE_P(Findings, RefusedFinding, ::testing::ValuesIn(kRefused),
                         row_name<Refused>);

class HandledFinding : public ::testing::TestWithParam<Handled> {};
TEST_P(HandledFinding, loads_the_right_numbers) {
  SCOPED_TRACE(GetParam().what);
  const ExpertGroup group = GetParam().group();
  const LoadedGroup loaded = load_group(group);
  ASSERT_FALSE(loaded.experts.empty());
  for (const auto& [local, expert] : loaded.experts) {
    EXPECT_EQ(expert, expected_expert(group, local)) << local;
  }
}
INSTANTIATE_TEST_SUITE_P(Findings, HandledFinding, ::testing::ValuesIn(kHandled),
                         row_name<Handled>);

class RefusedFormatFinding : public ::testing::TestWithParam<RefusedFormat> {};
TEST_P(RefusedFormatFinding, is_refused_by_name) {
  const nlohmann::json config = {{"quantization_config", nlohmann::json::parse(GetParam().config)}};
  std::vector<std::string> warnings;
  expect_error(ErrorCode::kUnsupported, {GetParam().name}, [&] {
    announce_quantization(
        config, [](std::string_view) { return std::string(); }, warnings);
  });
}
INSTANTIATE_TEST_SUITE_P(Findings, RefusedFormatFinding, ::testing::ValuesIn(kRefusedFormats),
                         row_name<RefusedFormat>);

TEST(Findings, none_is_left_out) {
  std::set<std::string> expected;
  for (int i = 1; i <= kNumFindings; ++i) expected.insert(fmt::format("D{:02}", i));
  std::set<std::string> got;
  for (const Refused& row : kRefused) got.insert(row.id);
  for (const Handled& row : kHandled) got.insert(row.id);
  for (const RefusedFormat& row : kRefusedFormats) got.insert(row.id);
  for (const Elsewhere& row : kElsewhere) got.insert(row.id);
  EXPECT_EQ(got, expected);
}

TEST(Findings, D27_different_input_scales_are_no_fault) {
  EXPECT_EQ(load_group(fp8(Fp8Scales::kTensor)).experts.size(), 2U);
}

TEST(Findings, D35_fused_shared_experts_with_replicas_are_refused) {
  FusedMoEConfig config;
  config.num_experts = 4;
  config.hidden_size = config.intermediate_size = 8;
  config.top_k = 2;
  config.num_fused_shared_experts = 1;
  EXPECT_THAT(validate(config), ::testing::IsEmpty());
  config.parallel.physical_to_logical = {0, 1, 2, 3, 0};
  EXPECT_THAT(validate(config),
              ::testing::ElementsAre(::testing::HasSubstr("num_fused_shared_experts")));
}

TEST(Findings, D36_a_zero_scale_over_zeros_is_counted) {
  ExpertGroup group = with_scale(Fp8Scales::kTensor, 0.0F);
  group = with_zeros(group, kUp1, {12, 20}, DType::kF8E4M3);
  const LoadedGroup loaded = load_group(group);
  EXPECT_THAT(loaded.experts.at(1).w3, ::testing::Each(0.0F));
  EXPECT_THAT(loaded.report.warnings, ::testing::Contains(::testing::HasSubstr("zero")));
}

}  // namespace
}  // namespace fusedmoe::test
