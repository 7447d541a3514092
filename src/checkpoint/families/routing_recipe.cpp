#include <fmt/format.h>

#include <array>
#include <string_view>

#include "checkpoint/families/resolve.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

struct NamedScoring {
  std::string_view name;
  ScoringFunc scoring;
};
constexpr std::array<NamedScoring, 7> kScorings = {{
    {"softmax", ScoringFunc::kSoftmax},
    {"sigmoid", ScoringFunc::kSigmoid},
    {"sqrtsoftplus", ScoringFunc::kSqrtSoftplus},
    {"topk_softmax", ScoringFunc::kTopKSoftmax},
    {"topk_sigmoid", ScoringFunc::kTopKSigmoid},
    {"logits", ScoringFunc::kLogits},
    {"sparse_mixer", ScoringFunc::kSparseMixer},
}};

/// The names that DeepSeek gave to ways of choosing; "" leaves it to the row.
struct NamedMethod {
  std::string_view name;
  bool is_grouped;
  bool has_correction_bias;
};
constexpr std::array<NamedMethod, 4> kMethods = {{
    {"", true, true},
    {"greedy", false, false},
    {"group_limited_greedy", true, false},
    {"noaux_tc", true, true},
}};

struct NamedForm {
  std::string_view name;
  RenormalizeForm form;
};
constexpr std::array<NamedForm, 3> kForms = {{
    {"epsilon", RenormalizeForm::kPlusEpsilon},
    {"floor", RenormalizeForm::kFloor},
    {"p_norm", RenormalizeForm::kPNorm},
}};

template <class Table>
const auto& row_named(const Table& table, std::string_view name, std::string_view what,
                      const std::string& file) {
  std::string known;
  for (const auto& row : table) {
    if (row.name == name) return row;
    if (!row.name.empty()) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("[checkpoint] {}: expected one of {}, got \"{}\" ({}), this version has "
                          "no other",
                          what, known, name, file));
}

void resolve_renormalize(const RoutingRecipe& recipe, const ModelConfig& config,
                         TopKConfig& routing) {
  routing.renormalize =
      config.flag(recipe.renormalize) && routing.top_k >= recipe.renormalize_from_top_k;
  routing.renormalize_form =
      row_named(kForms, recipe.renormalize_form, "renormalize form", config.file()).form;
  const auto value = static_cast<float>(config.number(recipe.renormalize_value));
  if (routing.renormalize_form != RenormalizeForm::kPNorm) {
    routing.renormalize_epsilon = value;
    return;
  }
  routing.renormalize_p = value;
  for (const std::string& name : recipe.renormalize_value.names) {
    const nlohmann::json* given = config.find(name);
    if (given != nullptr && given->is_null()) routing.renormalize = false;
  }
}

void resolve_groups(const RoutingRecipe& recipe, const ModelConfig& config, bool is_grouped,
                    TopKConfig& routing) {
  if (!is_grouped) return;
  const std::int64_t groups = config.required(recipe.num_expert_group, {0, kMaxExperts});
  if (groups <= 1) return;
  const std::int64_t kept = config.required(recipe.topk_group, {1, groups});
  if (routing.num_experts % groups != 0) {
    config.fail(recipe.num_expert_group.names.front(),
                fmt::format("a divisor of {} experts", routing.num_experts),
                std::to_string(groups));
  }
  if (kept * (routing.num_experts / groups) < routing.top_k) {
    config.fail(recipe.topk_group.names.front(),
                fmt::format("groups that together hold {} experts", routing.top_k),
                fmt::format("{} of {}", kept, routing.num_experts / groups));
  }
  routing.num_expert_group = groups;
  routing.topk_group = kept;
}

}  // namespace

ResolvedRouting resolve_routing(const ModelFamily& family, const ModelConfig& config,
                                std::int64_t num_routed, int layer) {
  const RoutingRecipe& recipe = family.routing;
  ResolvedRouting resolved;
  TopKConfig& routing = resolved.config;
  routing.num_experts = num_routed;
  routing.top_k = config.agreed(family.top_k, {1, num_routed}, layer);
  routing.scoring =
      row_named(kScorings, config.text(recipe.scoring), "scoring function", config.file()).scoring;
  const NamedMethod& method =
      row_named(kMethods, config.text(recipe.method), "top-k method", config.file());
  resolved.has_correction_bias = method.has_correction_bias &&
                                 !family.router.correction_bias.empty() &&
                                 config.flag(family.router.has_correction_bias);
  resolve_renormalize(recipe, config, routing);
  resolve_groups(recipe, config, method.is_grouped, routing);
  routing.routed_scaling_factor = static_cast<float>(config.number(recipe.scaling_factor));
  routing.sparse_mixer_epsilon = static_cast<float>(config.number(recipe.sparse_mixer_epsilon));
  routing.logit_soft_cap = static_cast<float>(config.number(recipe.logit_soft_cap));
  if (routing.scoring == ScoringFunc::kSparseMixer && routing.top_k != 2) {
    config.fail(family.top_k.names.front(), "2 (the sparse mixer chooses two)",
                std::to_string(routing.top_k));
  }
  return resolved;
}

ActivationConfig resolve_activation(const ModelFamily& family, const ModelConfig& config) {
  const ActivationRecipe& recipe = family.activation;
  const std::string name = config.text(recipe.name);
  const auto kind = activation_from_name(name);
  if (!kind) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("[checkpoint] activation: expected a known one (silu, gelu, gelu_tanh, "
                            "relu2, ...), got \"{}\" ({}), this version has no such activation",
                            name, config.file()));
  }
  ActivationConfig activation;
  activation.kind = *kind;
  activation.is_gated = recipe.is_gated;
  activation.alpha = static_cast<float>(config.number(recipe.alpha));
  activation.limit = static_cast<float>(config.number(recipe.limit));
  return activation;
}

void check_refused(const ModelFamily& family, const ModelConfig& config) {
  for (const RefusedSetting& refused : family.refused) {
    const nlohmann::json* value = config.find(refused.key);
    if (value == nullptr || value->is_null()) continue;
    const std::string text = brief(*value);
    bool is_accepted = false;
    for (const std::string& accepted : refused.accepted) is_accepted |= accepted == text;
    if (is_accepted) continue;
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("[checkpoint] {}: expected {}, got {} ({}): {} cannot be computed by "
                    "this version",
                    refused.key, refused.accepted.empty() ? "null" : refused.accepted.front(), text,
                    config.file(), refused.reason));
  }
}

}  // namespace fusedmoe
