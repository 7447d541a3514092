#include "quant/ecosystems.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(ErrorCode code, std::string_view key, std::string_view expected,
                         const json& got) {
  const std::string text = got.is_structured()
                               ? std::string(got.type_name())
                               : got.dump(-1, ' ', true, json::error_handler_t::replace);
  throw Error(code, fmt::format("[quant] quantization_config.{}: expected {}, got {}, correct the "
                                "config or convert the checkpoint",
                                key, expected, text));
}

json value_of(const json& description, const char* key) {
  if (!description.is_object()) return {};
  const auto found = description.find(key);
  return found == description.end() ? json() : *found;
}

std::int64_t block_side(const json& value) {
  constexpr std::int64_t kMaxSide = 1 << 20;
  if (!value.is_number_integer() || value.get<std::int64_t>() < 1 ||
      value.get<std::int64_t>() > kMaxSide) {
    refuse(ErrorCode::kCorruptData, "weight_block_size", "two positive integers", value);
  }
  return value.get<std::int64_t>();
}

void read_fp8_block(const json& block, bool is_static, QuantAnnouncement& announcement) {
  if (!block.is_array() || block.size() != 2) {
    refuse(ErrorCode::kCorruptData, "weight_block_size", "two positive integers", block);
  }
  if (is_static) {
    refuse(ErrorCode::kCorruptData, "activation_scheme", "\"dynamic\" with weight_block_size",
           "static");
  }
  QuantScheme& scheme = announcement.scheme;
  scheme.name = "fp8_block";
  scheme.granularity = ScaleGranularity::kBlock;
  scheme.block_n = block_side(block[0]);
  scheme.block_k = block_side(block[1]);
  scheme.activation_scaling = ActivationScaling::kDynamicGroup;
  scheme.activation_group_size = scheme.block_k;
  announcement.suffixes = {{ParamRole::kWeight, ".weight"},
                           {ParamRole::kWeightScale, ".weight_scale_inv"}};
}

void read_fp8(const json& description, QuantAnnouncement& announcement) {
  const json format = value_of(description, "fmt");
  if (!format.is_null() && format != "e4m3") {
    refuse(ErrorCode::kUnsupported, "fmt", "\"e4m3\"", format);
  }
  const json scale_format = value_of(description, "scale_fmt");
  if (!scale_format.is_null() && scale_format != "ue8m0" && scale_format != "float") {
    refuse(ErrorCode::kUnsupported, "scale_fmt", "\"ue8m0\" or \"float\"", scale_format);
  }
  const json activation = value_of(description, "activation_scheme");
  if (activation != "dynamic" && activation != "static") {
    refuse(ErrorCode::kCorruptData, "activation_scheme", "\"dynamic\" or \"static\"", activation);
  }
  const bool is_static = activation == "static";
  QuantScheme& scheme = announcement.scheme;
  scheme.payload = PayloadFormat::kF8E4M3;
  scheme.scale_dtype = DType::kF32;
  if (const json block = value_of(description, "weight_block_size"); !block.is_null()) {
    read_fp8_block(block, is_static, announcement);
    return;
  }
  scheme.name = "fp8_tensor";
  scheme.granularity = ScaleGranularity::kTensor;
  scheme.activation_scaling =
      is_static ? ActivationScaling::kStaticTensor : ActivationScaling::kDynamicTensor;
  announcement.suffixes = {{ParamRole::kWeight, ".weight"},
                           {ParamRole::kWeightScale, ".weight_scale"}};
  if (is_static) announcement.suffixes.push_back({ParamRole::kInputScale, ".input_scale"});
}

void read_mxfp4(const json&, QuantAnnouncement& announcement) {
  QuantScheme& scheme = announcement.scheme;
  scheme.name = "mxfp4";
  scheme.payload = PayloadFormat::kE2M1;
  scheme.packing = Packing::kNibblesLowFirst;
  scheme.granularity = ScaleGranularity::kGroup;
  scheme.group_size = 32;
  scheme.scale_dtype = DType::kF8E8M0;
}

}  // namespace

std::span<const Ecosystem> ecosystems() {
  static const std::vector<Ecosystem> table = {
      {.name = "fp8",
       .known_keys = {"quant_method", "activation_scheme", "weight_block_size", "fmt", "scale_fmt",
                      "modules_to_not_convert", "ignored_layers"},
       .ignore_keys = {"modules_to_not_convert", "ignored_layers"},
       .read = read_fp8},
      {.name = "mxfp4",
       .suffixes = {{ParamRole::kWeight, "_blocks"}, {ParamRole::kWeightScale, "_scales"}},
       .known_keys = {"quant_method", "modules_to_not_convert"},
       .ignore_keys = {"modules_to_not_convert"},
       .read = read_mxfp4},
      {.name = "mxfp8"},
      {.name = "modelopt"},
      {.name = "compressed-tensors"},
      {.name = "gptq"},
      {.name = "awq"},
      {.name = "auto-round"},
      {.name = "w4afp8"},
      {.name = "w8a8_int8"},
      {.name = "w8a8_fp8"},
      {.name = "fbgemm_fp8"},
      {.name = "blockwise_int8"},
      {.name = "quark"},
      {.name = "bitsandbytes"},
      {.name = "modelslim"},
  };
  return table;
}

}  // namespace fusedmoe
