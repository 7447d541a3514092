// Where the experts of one rank are: from the ids that routing gives to local experts.
#pragma once

#include <cstdint>
#include <vector>

#include "fusedmoe/parallel.h"

namespace fusedmoe {

/// For each logical id, routed experts first and fused shared experts behind them, the local expert
/// of this rank that computes it, or -1 when another rank does.
///
/// Exactly one rank of the expert-parallel grid computes an id: of several physical slots that hold
/// an expert the first one does, so that replicas are never counted twice; every rank has copies
/// of the fused shared experts, behind its routed ones, and the first rank computes them.
/// @throws Error(kInvalidArgument) for an unsound layout (`validate`).
std::vector<std::int32_t> local_of_logical(const ParallelLayout& layout, std::int64_t num_experts,
                                           std::int64_t num_fused_shared_experts = 0);

}  // namespace fusedmoe
