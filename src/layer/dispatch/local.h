// Local dispatch: groups the slots of a batch by the local expert that computes them.
#pragma once

#include <span>

#include "fusedmoe/routing.h"
#include "layer/stage_types.h"

namespace fusedmoe {

/// What an id of the caller means on this rank.
struct ExpertIdMap {
  /// [num_ids]: id -> local expert, kAbsentSlot (another rank's) or kIdentitySlot. Ids outside are
  /// dropped and counted.
  std::span<const std::int32_t> local_of_id;
};

/// Fills `batch` (its spans have room for num_tokens * top_k slots). Rows of an expert ascend by
/// slot: a counting sort, no atomics.
void dispatch_local(const TopKView& topk, const ExpertIdMap& map, std::int64_t num_local_experts,
                    ExpertBatch& batch);

}  // namespace fusedmoe
