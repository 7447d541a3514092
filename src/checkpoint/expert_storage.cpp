#include <fmt/format.h>

#include "checkpoint/describe.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

std::string module_name(const ExpertTensorPattern& pattern, const std::string& prefix,
                        std::int64_t expert) {
  return prefix + with_number(pattern.module, "{expert}", expert);
}

/// Tensors of one kind in the file: one when stacked, one an expert otherwise.
std::int64_t num_tensors(const ExpertTensorPattern& pattern, std::int64_t num_experts) {
  return pattern.module.find("{expert}") == std::string::npos ? 1 : num_experts;
}

bool is_in_file(const ModelContext& context, const ExpertLayout& layout,
                const std::string& prefix) {
  const ExpertTensorPattern& first = layout.tensors.front();
  return context.tensors.find(module_name(first, prefix, 0) + first.weight_suffix) != nullptr;
}

/// Can files under `quant` look like this? A format that only adds companions needs one module a
/// matrix with the weight's own suffix.
bool serves(const ExpertLayout& layout, const QuantAnnouncement& quant) {
  if (layout.is_implied) return true;
  if (!layout.ecosystem.empty()) return layout.ecosystem == quant.ecosystem;
  if (!quant.scheme.is_quantized()) return true;
  for (const ExpertTensorPattern& pattern : layout.tensors) {
    if (pattern.is_stacked || pattern.weight_suffix != quant.suffixes.front().suffix) return false;
  }
  return true;
}

const ExpertLayout& choose_layout(const ModelContext& context, const QuantAnnouncement& quant,
                                  const std::vector<ExpertLayout>& layouts,
                                  const std::string& prefix) {
  const ExpertLayout* chosen = nullptr;
  for (const ExpertLayout& layout : layouts) {
    if (!serves(layout, quant)) continue;
    if (is_in_file(context, layout, prefix)) return layout;
    if (chosen == nullptr) chosen = &layout;
  }
  if (chosen != nullptr) return *chosen;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("[checkpoint] {}: expected a family with a layout for \"{}\" files, got "
                          "\"{}\" ({}), use an unquantized checkpoint",
                          prefix, quant.ecosystem, context.family.family, context.config.file()));
}

/// The announcement for these modules: none of them, or all, may be left plain. The walk ends at
/// the first expert that the file does not have, so that a config cannot make it long.
QuantAnnouncement quant_of(const ModelContext& context, const ExpertLayout& layout,
                           const std::string& prefix, std::int64_t num_experts) {
  if (!context.quant.scheme.is_quantized() || context.quant.ignored_modules.empty()) {
    return context.quant;
  }
  std::string ignored;
  std::string converted;
  for (const ExpertTensorPattern& pattern : layout.tensors) {
    for (std::int64_t e = 0; e < num_tensors(pattern, num_experts); ++e) {
      const std::string module = module_name(pattern, prefix, e);
      if (e > 0 && context.tensors.find(module + pattern.weight_suffix) == nullptr) break;
      (is_ignored(context.quant, module) ? ignored : converted) = module;
    }
  }
  if (ignored.empty()) return context.quant;
  if (converted.empty()) return {};
  throw Error(ErrorCode::kUnsupported,
              fmt::format("[checkpoint] {}: expected all experts of a layer in one format, got {} "
                          "left plain and {} quantized ({}), convert the checkpoint",
                          prefix, ignored, converted, context.config.file()));
}

/// Element type of plain weights: all tensors of the group agree. An absent one ends the walk (the
/// loader will name it), so that a config cannot make it long.
DType plain_dtype(const ModelContext& context, const std::vector<ExpertTensorPattern>& tensors,
                  const std::string& prefix, std::int64_t num_experts) {
  const TensorInfo* first = nullptr;
  for (const ExpertTensorPattern& pattern : tensors) {
    for (std::int64_t e = 0; e < num_tensors(pattern, num_experts); ++e) {
      const TensorInfo* tensor =
          context.tensors.find(module_name(pattern, prefix, e) + pattern.weight_suffix);
      if (tensor == nullptr) break;
      if (!is_activation_dtype(tensor->dtype)) {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("[checkpoint] expert weight: expected F32, BF16 or F16 (no "
                                "quantization is announced for it), got {} ({}), add the missing "
                                "quantization_config to {}",
                                dtype_name(tensor->dtype), tensor->name, context.config.file()));
      }
      if (first == nullptr) first = tensor;
      if (tensor->dtype != first->dtype) {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("[checkpoint] expert weight: expected {} as in {}, got {} ({}), "
                                "convert all experts of a layer to one type",
                                dtype_name(first->dtype), first->name, dtype_name(tensor->dtype),
                                tensor->name));
      }
    }
  }
  return first == nullptr ? DType::kBF16 : first->dtype;
}

/// Element type that holds dequantized products: e2m1 times a power of two is exact in BF16, e4m3
/// times an f32 scale needs f32.
DType dequantized_dtype(const QuantScheme& scheme) {
  return scheme.payload == PayloadFormat::kE2M1 ? DType::kBF16 : DType::kF32;
}

/// Suffixes as this layout spells them, and scales as the file stores them.
void adapt_announcement(const ModelContext& context, const ExpertLayout& layout,
                        const std::string& prefix, QuantAnnouncement& quant) {
  const ExpertTensorPattern& first = layout.tensors.front();
  for (RoleSuffix& role : quant.suffixes) {
    if (role.role == ParamRole::kWeight) role.suffix = first.weight_suffix;
    if (role.role != ParamRole::kWeightScale) continue;
    if (!layout.scale_suffix.empty()) role.suffix = layout.scale_suffix;
    const TensorInfo* scale = context.tensors.find(module_name(first, prefix, 0) + role.suffix);
    // MXFP4 files declare their exponents as plain bytes.
    if (scale != nullptr && scale->dtype != DType::kU8) quant.scheme.scale_dtype = scale->dtype;
  }
}

}  // namespace

ExpertStorage find_storage(const ModelContext& context, const std::vector<ExpertLayout>& layouts,
                           const std::string& layer_prefix, std::int64_t num_experts,
                           bool has_bias) {
  const ExpertLayout* layout = &choose_layout(context, context.quant, layouts, layer_prefix);
  ExpertStorage storage;
  storage.quant = quant_of(context, *layout, layer_prefix, num_experts);
  if (!storage.quant.scheme.is_quantized()) {
    if (layout->is_implied) {
      storage.quant = default_announcement(layout->ecosystem);
    } else {
      layout = &choose_layout(context, storage.quant, layouts, layer_prefix);
    }
  }
  storage.tensors = layout->tensors;
  for (ExpertTensorPattern& pattern : storage.tensors) {
    pattern.module = layer_prefix + pattern.module;
    if (!has_bias) pattern.bias_suffix.clear();
    if (has_bias && pattern.bias_suffix.empty()) pattern.bias_suffix = ".bias";
  }
  if (storage.quant.scheme.is_quantized()) {
    adapt_announcement(context, *layout, layer_prefix, storage.quant);
    storage.weight_dtype = dequantized_dtype(storage.quant.scheme);
  } else {
    storage.weight_dtype = plain_dtype(context, layout->tensors, layer_prefix, num_experts);
  }
  return storage;
}

}  // namespace fusedmoe
