#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/families/family.h"

namespace fusedmoe {
namespace {

std::int64_t count(const ExpertLayout& layout, ExpertShard shard) {
  return std::ranges::count(layout.tensors, shard, &ExpertTensorPattern::shard);
}

/// Every projection of an expert is there exactly once.
bool is_complete(const ExpertLayout& layout, bool is_gated) {
  const std::int64_t w13 = count(layout, ExpertShard::kW13);
  const bool has_separate = count(layout, ExpertShard::kW1) == 1 &&
                            count(layout, ExpertShard::kW3) == (is_gated ? 1 : 0) && w13 == 0;
  const bool has_joined = is_gated && w13 == 1 && count(layout, ExpertShard::kW1) == 0 &&
                          count(layout, ExpertShard::kW3) == 0;
  return count(layout, ExpertShard::kW2) == 1 && (has_separate || has_joined);
}

void check_layouts(const std::vector<ExpertLayout>& layouts, bool is_gated, bool is_shared,
                   const std::string& where, std::vector<std::string>& problems) {
  for (const ExpertLayout& layout : layouts) {
    if (!is_complete(layout, is_gated)) {
      problems.push_back(fmt::format("{}: a layout without exactly one {} and w2", where,
                                     is_gated ? "w1 and w3 (or w13)" : "w1"));
    }
    for (const ExpertTensorPattern& pattern : layout.tensors) {
      const bool names_expert = pattern.module.find("{expert}") != std::string::npos;
      if (names_expert == (pattern.is_stacked || is_shared)) {
        problems.push_back(fmt::format("{}: module \"{}\" {} \"{{expert}}\"", where, pattern.module,
                                       names_expert ? "must not contain" : "must contain"));
      }
      if (pattern.is_flattened && !pattern.is_stacked) {
        problems.push_back(
            fmt::format("{}: \"{}\" is_flattened without is_stacked", where, pattern.module));
      }
    }
  }
}

}  // namespace

std::vector<std::string> validate(const ModelFamily& family) {
  std::vector<std::string> problems;
  if (family.family.empty()) problems.emplace_back("no family (its name)");
  if (family.layer.find("{layer}") == std::string::npos) {
    problems.push_back(fmt::format("layer \"{}\" without \"{{layer}}\"", family.layer));
  }
  if (family.block.empty() && family.owned.empty())
    problems.emplace_back("neither block nor owned");
  if (family.router.weight.empty()) problems.emplace_back("no router.weight");
  if (family.experts.empty()) problems.emplace_back("no experts (layouts)");
  check_layouts(family.experts, family.activation.is_gated, false, "experts", problems);
  check_layouts(family.shared.layouts, family.activation.is_gated, true, "shared", problems);
  return problems;
}

}  // namespace fusedmoe
