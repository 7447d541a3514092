#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "checkpoint/families/family.h"

namespace fusedmoe {
namespace {

std::string spoken(const FlagKey& key) {
  if (key.names.empty()) return *key.fallback ? "renormalized" : "not renormalized";
  return fmt::format("renormalized by {}", key.names.front());
}

std::string router_line(const ModelFamily& family) {
  const RoutingRecipe& routing = family.routing;
  std::string line = routing.scoring.fallback.value_or("");
  if (!family.router.correction_bias.empty()) line += " + correction bias";
  if (!family.router.hash_table.empty()) line += " or hash table";
  if (!routing.num_expert_group.names.empty()) line += ", grouped";
  const bool weights_sum_to_one = line.starts_with("topk_softmax");
  line += weights_sum_to_one ? "" : ", " + spoken(routing.renormalize);
  if (routing.renormalize_form == "p_norm") line += " (p-norm)";
  if (!routing.scaling_factor.names.empty()) {
    line += fmt::format(", times {}", routing.scaling_factor.names.front());
  }
  if (!family.router.per_expert_scale.empty()) line += ", times a scale an expert";
  if (routing.weight_on_input) line += ", on the input";
  return line;
}

std::string_view last_component(std::string_view module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? module : module.substr(dot + 1);
}

std::string layout_line(const ExpertLayout& layout) {
  std::vector<std::string_view> names;
  for (const ExpertTensorPattern& pattern : layout.tensors) {
    names.push_back(last_component(pattern.module));
  }
  const ExpertTensorPattern& first = layout.tensors.front();
  return fmt::format("{}{}{}{}: {}", layout.ecosystem.empty() ? "" : layout.ecosystem + " ",
                     first.is_stacked ? "stacked" : "per expert",
                     first.is_transposed ? ", transposed" : "",
                     first.is_interleaved ? ", interleaved" : "", fmt::join(names, " / "));
}

std::string activation_line(const ModelFamily& family) {
  const ActivationRecipe& recipe = family.activation;
  std::string line = recipe.name.fallback.value_or("");
  line += recipe.is_gated ? ", gated" : ", not gated";
  if (!recipe.limit.names.empty())
    line += fmt::format(", clamped at {}", recipe.limit.names.front());
  return line;
}

std::string shared_line(const SharedRecipe& shared) {
  if (shared.layouts.empty()) return "none";
  const std::string& module = shared.layouts.front().tensors.front().module;
  std::string line = module.substr(0, module.rfind('.'));
  if (!shared.gate.empty()) line += ", times sigmoid(gate)";
  return line;
}

}  // namespace

FamilySummary summarize(const ModelFamily& family) {
  FamilySummary summary;
  summary.family = family.family;
  summary.model_types = family.model_types;
  summary.router = router_line(family);
  for (const ExpertLayout& layout : family.experts) {
    summary.expert_layout += (summary.expert_layout.empty() ? "" : "; or ") + layout_line(layout);
  }
  summary.activation = activation_line(family);
  summary.shared_experts = shared_line(family.shared);
  return summary;
}

std::vector<FamilySummary> list_families() {
  std::vector<FamilySummary> summaries;
  for (const ModelFamily& row : builtin_families()) summaries.push_back(summarize(row));
  return summaries;
}

}  // namespace fusedmoe
