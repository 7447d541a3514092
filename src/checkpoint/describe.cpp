#include "checkpoint/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

/// Prefixes that multimodal checkpoints put before the language model's names, "" first. A pattern
/// under "model." is also found with the wrapper inside it and without it.
std::vector<std::string> wrapped(const std::string& pattern) {
  std::vector<std::string> patterns = {pattern, "language_model." + pattern, "thinker." + pattern};
  constexpr std::string_view kModel = "model.";
  if (pattern.starts_with(kModel)) {
    const std::string rest = pattern.substr(kModel.size());
    patterns.push_back("model.language_model." + rest);
    patterns.push_back(rest);
  }
  return patterns;
}

/// The wrapped pattern under which the file has `layer`: by its router, else by any tensor.
std::string find_layer_pattern(const ModelFamily& family, const TensorIndex& tensors, int layer) {
  std::vector<std::string> by_router;
  std::vector<std::string> by_block;
  for (const std::string& pattern : wrapped(family.layer)) {
    const std::string prefix = with_number(pattern, "{layer}", layer);
    const std::string block = family.owned.empty() ? family.block : family.owned.front();
    if (tensors.find(prefix + family.router.weight) != nullptr) by_router.push_back(pattern);
    if (!tensors.below(prefix + block).empty()) by_block.push_back(pattern);
  }
  const auto& found = by_router.empty() ? by_block : by_router;
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("[checkpoint] MoE layer {}: expected tensors below {}{}, got none (also "
                    "tried the wrappers language_model. and model.language_model.), check "
                    "that all shards are there and that the family \"{}\" is right",
                    layer, with_number(family.layer, "{layer}", layer), family.block,
                    family.family));
  }
  throw Error(ErrorCode::kCorruptData,
              fmt::format("[checkpoint] MoE layer {}: expected one set of tensors, got {} ({}), "
                          "split the checkpoint",
                          layer, found.size(), fmt::join(found, ", ")));
}

/// The number after the layers' common prefix; negative when the name is no layer's.
std::int64_t layer_number(std::string_view name, std::string_view base) {
  if (!name.starts_with(base)) return -1;
  name.remove_prefix(base.size());
  std::int64_t number = -1;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_component = end != name.data() + name.size() && *end == '.';
  return problem == std::errc{} && is_component ? number : -1;
}

/// Tensors of layers that predict further tokens: they are no part of the model proper.
bool is_mtp_name(std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(6);
  return name.starts_with("mtp.") || name.starts_with("mtp_");
}

void warn_of_skipped(const ModelContext& context, int num_layers,
                     std::vector<std::string>& warnings) {
  const std::string base = context.layer_pattern.substr(0, context.layer_pattern.find("{layer}"));
  std::size_t num_beyond = 0;
  std::int64_t last_layer = 0;
  std::size_t num_mtp = 0;
  for (const TensorInfo& tensor : context.tensors.all()) {
    const std::int64_t layer = layer_number(tensor.name, base);
    if (layer >= num_layers) {
      ++num_beyond;
      last_layer = std::max(last_layer, layer);
    }
    if (is_mtp_name(tensor.name)) ++num_mtp;
  }
  if (num_beyond > 0) {
    warnings.push_back(
        fmt::format("skipped {} tensors of layers {} to {}: the model has {} layers "
                    "(the rest is multi-token prediction)",
                    num_beyond, num_layers, last_layer, num_layers));
  }
  if (num_mtp > 0) {
    warnings.push_back(fmt::format("skipped {} tensors of multi-token prediction (mtp)", num_mtp));
  }
}

void warn_of_unexpected_experts(const ModelContext& context, const std::vector<int>& dense_layers,
                                std::vector<std::string>& warnings) {
  for (const int layer : dense_layers) {
    const std::string prefix = with_number(context.layer_pattern, "{layer}", layer);
    for (const ExpertLayout& layout : context.family.experts) {
      const ExpertTensorPattern& first = layout.tensors.front();
      const std::string name =
          prefix + with_number(first.module, "{expert}", 0) + first.weight_suffix;
      if (context.tensors.find(name) == nullptr) continue;
      warnings.push_back(fmt::format("layer {} has no experts by {}, but the file has {}", layer,
                                     context.config.file(), name));
    }
  }
}

}  // namespace

std::string with_number(const std::string& pattern, const std::string& placeholder,
                        std::int64_t number) {
  const std::size_t at = pattern.find(placeholder);
  if (at == std::string::npos) return pattern;
  return pattern.substr(0, at) + std::to_string(number) + pattern.substr(at + placeholder.size());
}

std::int64_t experts_of_layer(const ModelFamily& family, const ModelConfig& config, int layer) {
  const IntKey key{family.num_experts.names, family.num_experts.fallback.value_or(0)};
  const std::int64_t count = config.agreed(key, {0, kMaxExperts}, layer);
  return count < family.min_num_experts ? 0 : count;
}

ModelDescription describe(const CheckpointFacts& facts, const DescribeOptions& options) {
  const ModelConfig config(facts.config_json, facts.config_file);
  const ModelFamily family = select_family(config, options);
  check_refused(family, config);
  ModelDescription model;
  model.family = family.family;
  const auto types = config.model_types();
  model.model_type = types.empty() ? "" : types.front();
  std::vector<LayerKind> kinds = layer_kinds(family, config);
  model.num_hidden_layers = static_cast<int>(kinds.size());
  std::vector<int> moe_layers;
  for (int layer = 0; layer < model.num_hidden_layers; ++layer) {
    const bool is_moe = kinds[static_cast<std::size_t>(layer)] != LayerKind::kDense &&
                        experts_of_layer(family, config, layer) > 0;
    (is_moe ? moe_layers : model.dense_layers).push_back(layer);
  }
  if (moe_layers.empty()) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("[checkpoint] {}: expected MoE layers, got none: {} makes all {} layers "
                    "dense (number of experts: {}), there is nothing to run here",
                    family.family, config.file(), kinds.size(),
                    fmt::join(family.num_experts.names, " or ")));
  }
  const TensorIndex tensors(facts.tensors);
  const ModelContext context{family, config, tensors,
                             announce_quantization(config.root(), facts.side_file, model.warnings),
                             find_layer_pattern(family, tensors, moe_layers.front())};
  for (const int layer : moe_layers) {
    model.layers.push_back(describe_layer(context, layer, kinds[static_cast<std::size_t>(layer)]));
  }
  warn_of_skipped(context, model.num_hidden_layers, model.warnings);
  warn_of_unexpected_experts(context, model.dense_layers, model.warnings);
  return model;
}

}  // namespace fusedmoe
