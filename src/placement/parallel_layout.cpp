// Which experts a rank holds: physical slots are dealt to ranks in contiguous ranges.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "fusedmoe/error.h"
#include "fusedmoe/parallel.h"

namespace fusedmoe {
namespace {

std::int64_t num_physical(const ParallelLayout& layout, std::int64_t num_experts) {
  return layout.physical_to_logical.empty()
             ? num_experts
             : static_cast<std::int64_t>(layout.physical_to_logical.size());
}

// [first, last) physical slots of a rank.
std::pair<std::int64_t, std::int64_t> slot_range(const ParallelLayout& layout,
                                                 std::int64_t num_slots) {
  const std::int64_t rank = layout.ep_rank;
  if (!layout.slots_per_rank.empty()) {
    const auto begin = layout.slots_per_rank.begin();
    const std::int64_t first = std::accumulate(begin, begin + rank, std::int64_t{0});
    return {first, first + layout.slots_per_rank[static_cast<std::size_t>(rank)]};
  }
  const std::int64_t each = num_slots / layout.ep_size;
  const std::int64_t extra = num_slots % layout.ep_size;
  const std::int64_t first = rank * each + std::min(rank, extra);
  return {first, first + each + (rank < extra ? 1 : 0)};
}

void check_rank(std::vector<std::string>& problems, const char* name, int rank, int size) {
  if (size < 1) problems.push_back(fmt::format("{}_size: expected >= 1, got {}", name, size));
  if (size >= 1 && (rank < 0 || rank >= size)) {
    problems.push_back(fmt::format("{}_rank: expected [0, {}), got {}", name, size, rank));
  }
}

}  // namespace

std::vector<std::string> validate(const ParallelLayout& layout, std::int64_t num_experts) {
  std::vector<std::string> problems;
  check_rank(problems, "tp", layout.tp_rank, layout.tp_size);
  check_rank(problems, "ep", layout.ep_rank, layout.ep_size);
  if (num_experts < 1) {
    problems.push_back(fmt::format("num_experts: expected >= 1, got {}", num_experts));
  }
  if (!problems.empty()) return problems;
  const std::int64_t num_slots = num_physical(layout, num_experts);
  if (num_slots < layout.ep_size) {
    problems.push_back(fmt::format("ep_size {}: expected at most one rank for each of {} experts",
                                   layout.ep_size, num_slots));
  }
  std::vector<bool> placed(static_cast<std::size_t>(num_experts), false);
  for (std::size_t p = 0; p < layout.physical_to_logical.size(); ++p) {
    const std::int32_t e = layout.physical_to_logical[p];
    if (e < 0 || e >= num_experts) {
      problems.push_back(
          fmt::format("physical_to_logical: slot {}: expected an expert in [0, {}), "
                      "got {}",
                      p, num_experts, e));
      return problems;
    }
    placed[static_cast<std::size_t>(e)] = true;
  }
  if (!layout.physical_to_logical.empty()) {
    for (std::size_t e = 0; e < placed.size(); ++e) {
      if (placed[e]) continue;
      problems.push_back(fmt::format("physical_to_logical: expert {} has no slot", e));
      break;
    }
  }
  if (!layout.slots_per_rank.empty()) {
    const auto& slots = layout.slots_per_rank;
    const std::int64_t sum = std::accumulate(slots.begin(), slots.end(), std::int64_t{0});
    const bool negative = std::any_of(slots.begin(), slots.end(), [](int s) { return s < 0; });
    if (static_cast<int>(slots.size()) != layout.ep_size || sum != num_slots || negative) {
      problems.push_back(
          fmt::format("slots_per_rank: expected {} counts that sum to {}, got {} "
                      "that sum to {}",
                      layout.ep_size, num_slots, slots.size(), sum));
    }
  }
  return problems;
}

std::vector<std::int32_t> local_to_logical(const ParallelLayout& layout, std::int64_t num_experts) {
  const std::vector<std::string> problems = validate(layout, num_experts);
  if (!problems.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("[placement] layout: {}, correct the layout", fmt::join(problems, "; ")));
  }
  const auto [first, last] = slot_range(layout, num_physical(layout, num_experts));
  std::vector<std::int32_t> local;
  for (std::int64_t p = first; p < last; ++p) {
    local.push_back(layout.physical_to_logical.empty()
                        ? static_cast<std::int32_t>(p)
                        : layout.physical_to_logical[static_cast<std::size_t>(p)]);
  }
  return local;
}

}  // namespace fusedmoe
