// Which part of a layer a rank holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fusedmoe {

/// The place of one rank in a moe_tp x moe_ep grid, and which experts live where.
struct ParallelLayout {
  int tp_size = 1;
  int tp_rank = 0;
  int ep_size = 1;
  int ep_rank = 0;
  /// physical slot -> logical expert, over all ep ranks; empty means one slot for each expert, in
  /// order. Longer than the number of experts when some are replicated.
  std::vector<std::int32_t> physical_to_logical;
  /// Physical slots of each ep rank (contiguous, ascending); empty means as even as possible, the
  /// first ranks taking one more.
  std::vector<std::int32_t> slots_per_rank;
  /// Files hold this tp rank's slice already (intermediate sizes in the file are local sizes).
  bool presharded = false;
};

/// All problems of a layout for `num_experts` routed experts, in words; empty when it is sound.
std::vector<std::string> validate(const ParallelLayout& layout, std::int64_t num_experts);

/// The logical experts of one ep rank, in local order: local expert i computes `result[i]`.
/// Fused shared experts are not included; they follow the routed ones on every rank.
/// @throws Error(kInvalidArgument) listing what `validate` finds.
std::vector<std::int32_t> local_to_logical(const ParallelLayout& layout, std::int64_t num_experts);

}  // namespace fusedmoe
