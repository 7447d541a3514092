#include <fmt/format.h>

#include "checkpoint/describe.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

std::string below(const std::string& prefix, const std::string& name) {
  return name.empty() ? "" : prefix + name;
}

RouterDescription describe_router(const ModelContext& context, const std::string& prefix,
                                  LayerKind kind, bool has_correction_bias) {
  const RouterNames& names = context.family.router;
  const bool is_hash = kind == LayerKind::kHashMoe;
  RouterDescription router;
  router.weight = below(prefix, names.weight);
  if (context.config.flag(names.has_bias)) router.bias = below(prefix, names.bias);
  if (has_correction_bias && !is_hash) {
    router.correction_bias = below(prefix, names.correction_bias);
  }
  if (is_hash) router.hash_table = below(prefix, names.hash_table);
  router.per_expert_scale = below(prefix, names.per_expert_scale);
  router.input_scale = below(prefix, names.input_scale);
  router.normalizes_input = names.normalizes_input;
  router.norm_epsilon = static_cast<float>(context.config.number(names.norm_epsilon));
  return router;
}

/// Width of all shared experts together; 0: none.
std::int64_t shared_width(const ModelContext& context, int layer, std::int64_t expert_width) {
  const SharedRecipe& recipe = context.family.shared;
  if (recipe.layouts.empty() || !context.config.flag(recipe.enabled)) return 0;
  const std::int64_t count = context.config.required(recipe.count, {0, kMaxExperts}, layer);
  if (count == 0) return 0;
  const IntRange range{0, kMaxWidth};
  const auto given = context.config.integer(recipe.width, range, layer);
  if (!given && !recipe.width_defaults_to_expert) {
    return context.config.required(recipe.width, range, layer);
  }
  const std::int64_t each = given.value_or(expert_width);
  if (recipe.is_width_total && given) return each;
  if (each > kMaxWidth / count) {
    context.config.fail(recipe.count.names.empty() ? "shared experts" : recipe.count.names.front(),
                        fmt::format("shared experts of at most {} columns together", kMaxWidth),
                        fmt::format("{} of {}", count, each));
  }
  return each * count;
}

}  // namespace

MoeLayerDescription describe_layer(const ModelContext& context, int layer, LayerKind kind) {
  const ModelFamily& family = context.family;
  const ModelConfig& config = context.config;
  const std::string prefix = with_number(context.layer_pattern, "{layer}", layer);
  MoeLayerDescription description;
  description.layer_index = layer;
  description.prefix = prefix + family.block;
  if (family.owned.empty()) description.owned_prefixes = {description.prefix};
  for (const std::string& owned : family.owned)
    description.owned_prefixes.push_back(prefix + owned);
  const IntRange width_range{1, kMaxWidth};
  description.hidden_size = config.required(family.hidden_size, width_range);
  description.intermediate_size = config.required(family.expert_width, width_range, layer);
  description.num_experts = experts_of_layer(family, config, layer);
  description.num_identity_experts = config.required(
      family.num_identity_experts, {0, kMaxExperts - description.num_experts}, layer);
  description.activation = resolve_activation(family, config);
  description.has_expert_bias = config.flag(family.has_expert_bias);
  description.apply_router_weight_on_input = family.routing.weight_on_input;
  const ResolvedRouting routing = resolve_routing(
      family, config, description.num_experts + description.num_identity_experts, layer);
  description.routing = routing.config;
  description.router = describe_router(context, prefix, kind, routing.has_correction_bias);
  ExpertStorage storage = find_storage(context, family.experts, prefix, description.num_experts,
                                       description.has_expert_bias);
  description.experts = std::move(storage.tensors);
  description.quant = std::move(storage.quant);
  description.weight_dtype = storage.weight_dtype;
  const std::int64_t width = shared_width(context, layer, description.intermediate_size);
  if (width == 0) return description;
  ExpertStorage shared =
      find_storage(context, family.shared.layouts, prefix, 1, description.has_expert_bias);
  description.shared.intermediate_size = width;
  description.shared.tensors = std::move(shared.tensors);
  description.shared.gate_weight = below(prefix, family.shared.gate);
  description.shared.activation = description.activation;
  description.shared.quant = std::move(shared.quant);
  description.shared.weight_dtype = shared.weight_dtype;
  return description;
}

}  // namespace fusedmoe
