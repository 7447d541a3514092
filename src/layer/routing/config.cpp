// What makes a routing configuration sound.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "fusedmoe/routing.h"

namespace fusedmoe {
namespace {

using Problems = std::vector<std::string>;

void check_counts(const TopKConfig& c, Problems& problems) {
  constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();
  const std::int64_t shared = c.num_fused_shared_experts;
  if (c.num_experts < 1 || c.num_experts > kMaxId) {
    problems.push_back(fmt::format("num_experts: expected 1 .. {}, got {}", kMaxId, c.num_experts));
    return;
  }
  if (shared < 0 || shared > kMaxId - c.num_experts) {
    problems.push_back(
        fmt::format("num_fused_shared_experts: expected 0 .. {}, got {}, ids are 32 bits",
                    kMaxId - c.num_experts, shared));
    return;
  }
  if (c.top_k <= shared || c.top_k - shared > c.num_experts) {
    problems.push_back(
        fmt::format("top_k: expected {} .. {} ({} experts and {} fused shared ones), got {}",
                    shared + 1, shared + c.num_experts, c.num_experts, shared, c.top_k));
  }
}

void check_groups(const TopKConfig& c, Problems& problems) {
  if (c.num_expert_group < 1 || c.num_experts % c.num_expert_group != 0) {
    problems.push_back(fmt::format("num_expert_group: expected a divisor of {} experts, got {}",
                                   c.num_experts, c.num_expert_group));
    return;
  }
  if (c.topk_group < 1 || c.topk_group > c.num_expert_group) {
    problems.push_back(fmt::format("topk_group: expected 1 .. {} (num_expert_group), got {}",
                                   c.num_expert_group, c.topk_group));
    return;
  }
  const std::int64_t kept = c.topk_group * (c.num_experts / c.num_expert_group);
  const std::int64_t routed = c.top_k - c.num_fused_shared_experts;
  if (kept < routed) {
    problems.push_back(fmt::format(
        "topk_group: expected groups that hold at least {} experts, got {} in {} of {} groups, "
        "keep more groups or choose fewer experts",
        routed, kept, c.topk_group, c.num_expert_group));
  }
}

void check_per_expert(const char* name, const std::vector<float>& values, std::int64_t num_experts,
                      Problems& problems) {
  if (values.empty()) return;
  if (static_cast<std::int64_t>(values.size()) != num_experts) {
    problems.push_back(
        fmt::format("{}: expected {} values or none, got {}", name, num_experts, values.size()));
    return;
  }
  for (std::size_t e = 0; e < values.size(); ++e) {
    if (std::isfinite(values[e])) continue;
    problems.push_back(
        fmt::format("{} of expert {}: expected a finite value, got {}, the checkpoint "
                    "is damaged or read with a wrong dtype",
                    name, e, values[e]));
    return;
  }
}

struct NumberRule {
  const char* name;
  float TopKConfig::*value;
  float lowest;
  bool includes_lowest;
};

constexpr float kAnyFinite = std::numeric_limits<float>::lowest();
constexpr NumberRule kNumberRules[] = {
    {"renormalize_epsilon", &TopKConfig::renormalize_epsilon, 0.0F, true},
    {"renormalize_p", &TopKConfig::renormalize_p, 0.0F, false},
    {"routed_scaling_factor", &TopKConfig::routed_scaling_factor, kAnyFinite, true},
    {"sparse_mixer_epsilon", &TopKConfig::sparse_mixer_epsilon, 0.0F, true},
    {"logit_soft_cap", &TopKConfig::logit_soft_cap, 0.0F, true},
    {"fused_shared_weight", &TopKConfig::fused_shared_weight, kAnyFinite, true},
};

void check_numbers(const TopKConfig& c, Problems& problems) {
  for (const NumberRule& rule : kNumberRules) {
    const float value = c.*rule.value;
    const bool is_above = rule.includes_lowest ? value >= rule.lowest : value > rule.lowest;
    if (std::isfinite(value) && is_above) continue;
    std::string wanted = "a finite value";
    if (rule.lowest != kAnyFinite) {
      wanted += fmt::format(" {} {}", rule.includes_lowest ? ">=" : ">", rule.lowest);
    }
    problems.push_back(fmt::format("{}: expected {}, got {}", rule.name, wanted, value));
  }
}

void check_sparse_mixer(const TopKConfig& c, Problems& problems) {
  if (c.scoring != ScoringFunc::kSparseMixer) return;
  if (c.top_k - c.num_fused_shared_experts != 2) {
    problems.push_back(fmt::format("top_k: expected 2 routed experts for the sparse mixer, got {}",
                                   c.top_k - c.num_fused_shared_experts));
  }
  if (c.renormalize) {
    problems.push_back("renormalize: expected false for the sparse mixer, got true");
  }
  if (c.num_expert_group > 1 || !c.correction_bias.empty()) {
    problems.push_back("sparse mixer: expected neither groups nor a correction bias, got one");
  }
}

}  // namespace

std::vector<std::string> validate(const TopKConfig& config) {
  Problems problems;
  check_counts(config, problems);
  if (!problems.empty()) return problems;
  check_groups(config, problems);
  check_per_expert("correction_bias", config.correction_bias, config.num_experts, problems);
  check_per_expert("per_expert_scale", config.per_expert_scale, config.num_experts, problems);
  check_numbers(config, problems);
  check_sparse_mixer(config, problems);
  return problems;
}

}  // namespace fusedmoe
