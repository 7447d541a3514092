// FlashInfer's names for common routing functions. By name only: the numbers of the enumeration
// differ between the projects that use it.
#include <fmt/format.h>

#include "fusedmoe/error.h"
#include "fusedmoe/routing.h"

namespace fusedmoe {
namespace {

struct Method {
  RoutingMethodType type;
  std::string_view name;
  ScoringFunc scoring;
  bool renormalize;
  RenormalizeForm form = RenormalizeForm::kPlusEpsilon;
  float epsilon = 0.0F;
};

using enum RoutingMethodType;

constexpr float kTiny = 1e-20F;
constexpr Method kMethods[] = {
    {kDefault, "Default", ScoringFunc::kSoftmax, false},
    {kRenormalize, "Renormalize", ScoringFunc::kTopKSoftmax, true},
    {kDeepSeekV3, "DeepSeekV3", ScoringFunc::kSigmoid, true, RenormalizeForm::kPlusEpsilon, kTiny},
    {kLlama4, "Llama4", ScoringFunc::kTopKSigmoid, false},
    {kRenormalizeNaive, "RenormalizeNaive", ScoringFunc::kSoftmax, true},
    {kTopK, "TopK", ScoringFunc::kLogits, false},
    {kSigmoidRenorm, "SigmoidRenorm", ScoringFunc::kSigmoid, true, RenormalizeForm::kFloor, kTiny},
    {kMiniMax2, "MiniMax2", ScoringFunc::kSigmoid, true, RenormalizeForm::kPlusEpsilon, kTiny},
    {kSigmoid, "Sigmoid", ScoringFunc::kSigmoid, false},
    {kTopKSigmoid, "TopKSigmoid", ScoringFunc::kTopKSigmoid, false},
};
constexpr std::string_view kUnspecifiedName = "Unspecified";

}  // namespace

std::string_view routing_method_name(RoutingMethodType method) noexcept {
  for (const Method& m : kMethods) {
    if (m.type == method) return m.name;
  }
  return kUnspecifiedName;
}

std::optional<RoutingMethodType> routing_method_from_name(std::string_view name) noexcept {
  for (const Method& m : kMethods) {
    if (m.name == name) return m.type;
  }
  if (name == kUnspecifiedName) return kUnspecified;
  return std::nullopt;
}

TopKConfig topk_config_for(RoutingMethodType method, std::int64_t num_experts, std::int64_t top_k) {
  for (const Method& m : kMethods) {
    if (m.type != method) continue;
    TopKConfig config;
    config.num_experts = num_experts;
    config.top_k = top_k;
    config.scoring = m.scoring;
    config.renormalize = m.renormalize;
    config.renormalize_form = m.form;
    config.renormalize_epsilon = m.epsilon;
    return config;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("[routing] method: expected one that names a function (Default, "
                          "Renormalize, DeepSeekV3, ...), got {}, describe it by a TopKConfig",
                          kUnspecifiedName));
}

}  // namespace fusedmoe
