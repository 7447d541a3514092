#include "placement/expert_map.h"

namespace fusedmoe {

std::vector<std::int32_t> local_of_logical(const ParallelLayout& layout, std::int64_t num_experts,
                                           std::int64_t num_fused_shared_experts) {
  const std::vector<std::int32_t> local = local_to_logical(layout, num_experts);
  std::vector<bool> is_taken(static_cast<std::size_t>(num_experts), false);
  ParallelLayout earlier = layout;
  for (earlier.ep_rank = 0; earlier.ep_rank < layout.ep_rank; ++earlier.ep_rank) {
    for (const std::int32_t e : local_to_logical(earlier, num_experts)) {
      is_taken[static_cast<std::size_t>(e)] = true;
    }
  }
  std::vector<std::int32_t> map(static_cast<std::size_t>(num_experts), -1);
  for (std::size_t i = 0; i < local.size(); ++i) {
    const auto e = static_cast<std::size_t>(local[i]);
    if (is_taken[e]) continue;
    is_taken[e] = true;
    map[e] = static_cast<std::int32_t>(i);
  }
  for (std::int64_t s = 0; s < num_fused_shared_experts; ++s) {
    const std::int64_t index = static_cast<std::int64_t>(local.size()) + s;
    map.push_back(layout.ep_rank == 0 ? static_cast<std::int32_t>(index) : -1);
  }
  return map;
}

}  // namespace fusedmoe
