#include "weights/quantized_group.h"

#include <fmt/format.h>

#include <cmath>

#include "reference/layer_data.h"

namespace fusedmoe::test {
namespace {

constexpr std::int64_t kBlock = 8;
constexpr std::int64_t kGroup = 32;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Rows and columns that share a scale, and how many scales there are.
struct Grid {
  std::int64_t unit_rows, unit_cols, rows, cols;
};

Grid grid_of(Fp8Scales scales, std::int64_t n, std::int64_t k) {
  if (scales == Fp8Scales::kBlock) {
    return {kBlock, kBlock, ceil_div(n, kBlock), ceil_div(k, kBlock)};
  }
  return scales == Fp8Scales::kTensor ? Grid{n, k, 1, 1} : Grid{1, k, n, 1};
}

QuantScheme fp8_scheme(Fp8Scales scales) {
  QuantScheme scheme;
  scheme.name = "fp8";
  scheme.payload = PayloadFormat::kF8E4M3;
  scheme.granularity = scales == Fp8Scales::kBlock    ? ScaleGranularity::kBlock
                       : scales == Fp8Scales::kTensor ? ScaleGranularity::kTensor
                                                      : ScaleGranularity::kChannel;
  if (scales == Fp8Scales::kBlock) scheme.block_n = scheme.block_k = kBlock;
  return scheme;
}

void add_fp8_matrix(Fp8Scales kind, const std::string& module, std::int64_t expert, std::int64_t n,
                    std::int64_t k, Random& random, QuantizedGroup& to) {
  const Grid grid = grid_of(kind, n, k);
  std::vector<float> scales;
  for (std::int64_t i = 0; i < grid.rows * grid.cols; ++i) {
    scales.push_back(static_cast<float>(0.01 + random.uniform()));
  }
  std::vector<std::uint8_t> codes;
  std::vector<float>& numbers = to.numbers[{module, expert}];
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < k; ++c) {
      auto code = static_cast<std::uint8_t>(random.below(256));
      if ((code & 0x7F) == 0x7F) code = 0x7E;  // no NaN
      codes.push_back(code);
      const float scale =
          scales[static_cast<std::size_t>(r / grid.unit_rows * grid.cols + c / grid.unit_cols)];
      // Exact in double, so rounded once.
      numbers.push_back(static_cast<float>(e4m3_value(code) * static_cast<double>(scale)));
    }
  }
  const std::string name = fmt::format("block.experts.{}.{}", expert, module);
  const Shape shape = kind == Fp8Scales::kTensor ? Shape{1} : Shape{grid.rows, grid.cols};
  to.group.tensors.push_back(made_codes(name + ".weight", {n, k}, codes, DType::kF8E4M3));
  to.group.tensors.push_back(made_floats(name + ".weight_scale_inv", shape, scales));
  if (kind == Fp8Scales::kTensor) {
    const auto input_scale = static_cast<float>(0.02 + random.uniform());
    to.group.tensors.push_back(made_floats(name + ".input_scale", {1}, {input_scale}));
  }
}

// All experts of one stacked projection; `names` are those of its rows in turn.
void add_mxfp4(const std::string& module, const std::vector<std::string>& names,
               const ExpertSizes& sizes, std::int64_t n, std::int64_t k, Random& random,
               QuantizedGroup& to) {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> scales;
  for (std::int64_t e = 0; e < sizes.num_experts; ++e) {
    for (std::int64_t r = 0; r < n; ++r) {
      std::vector<float>& numbers =
          to.numbers[{names[static_cast<std::size_t>(r) % names.size()], e}];
      for (std::int64_t g = 0; g < k / kGroup; ++g) {
        scales.push_back(static_cast<std::uint8_t>(100 + random.below(50)));
        for (std::int64_t pair = 0; pair < kGroup / 2; ++pair) {
          const auto byte = static_cast<std::uint8_t>(random.below(256));
          bytes.push_back(byte);
          for (const int code : {byte & 15, byte >> 4}) {
            numbers.push_back(
                static_cast<float>(e2m1_value(code) * std::exp2(scales.back() - 127)));
          }
        }
      }
    }
  }
  const std::string name = "block.experts." + module;
  to.group.tensors.push_back(made_codes(
      name + "_blocks", {sizes.num_experts, n, k / kGroup, kGroup / 2}, bytes, DType::kU8));
  to.group.tensors.push_back(
      made_codes(name + "_scales", {sizes.num_experts, n, k / kGroup}, scales, DType::kU8));
}

}  // namespace

double e4m3_value(std::uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const double fraction = (code & 7) / 8.0;
  const double magnitude =
      exponent == 0 ? fraction * std::exp2(-6) : (1.0 + fraction) * std::exp2(exponent - 7);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

double e2m1_value(int code) {
  constexpr double kValues[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  return (code & 8) != 0 ? -kValues[code & 7] : kValues[code & 7];
}

QuantizedGroup fp8_group(Fp8Scales scales, const ExpertSizes& sizes) {
  QuantizedGroup result;
  ExpertGroup& group = result.group;
  group.sizes = sizes;
  group.patterns = patterns_of(disk_layout("per_expert"), false);
  group.quant.ecosystem = "fp8";
  group.quant.scheme = fp8_scheme(scales);
  group.quant.suffixes = {{ParamRole::kWeight, ".weight"},
                          {ParamRole::kWeightScale, ".weight_scale_inv"}};
  if (scales == Fp8Scales::kTensor) {
    group.quant.suffixes.push_back({ParamRole::kInputScale, ".input_scale"});
  }
  Random random(3);
  for (std::int64_t e = 0; e < sizes.num_experts; ++e) {
    const std::int64_t h = sizes.hidden_size;
    const std::int64_t i = sizes.intermediate_size;
    add_fp8_matrix(scales, "gate_proj", e, i, h, random, result);
    add_fp8_matrix(scales, "up_proj", e, i, h, random, result);
    add_fp8_matrix(scales, "down_proj", e, h, i, random, result);
  }
  return result;
}

QuantizedGroup mxfp4_group(const ExpertSizes& sizes) {
  QuantizedGroup result;
  ExpertGroup& group = result.group;
  group.sizes = sizes;
  group.patterns = patterns_of(disk_layout("stacked_interleaved"), false);
  group.quant.ecosystem = "mxfp4";
  QuantScheme& scheme = group.quant.scheme;
  scheme.name = "mxfp4";
  scheme.payload = PayloadFormat::kE2M1;
  scheme.packing = Packing::kNibblesLowFirst;
  scheme.granularity = ScaleGranularity::kGroup;
  scheme.group_size = kGroup;
  scheme.scale_dtype = DType::kF8E8M0;
  group.quant.suffixes = {{ParamRole::kWeight, "_blocks"}, {ParamRole::kWeightScale, "_scales"}};
  Random random(4);
  const std::int64_t h = sizes.hidden_size;
  const std::int64_t i = sizes.intermediate_size;
  add_mxfp4("gate_up_proj", {"gate_proj", "up_proj"}, sizes, 2 * i, h, random, result);
  add_mxfp4("down_proj", {"down_proj"}, sizes, h, i, random, result);
  return result;
}

}  // namespace fusedmoe::test
