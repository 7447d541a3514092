// Is a load request one that a plan can be made for? Asked before any name or size is used.
#pragma once

#include "weights/load.h"

namespace fusedmoe {

/// Shards of an expert that have tensors: w1, w3 (gated only), w2.
std::vector<ExpertShard> shards_of_expert(const ExpertLoadRequest& request);

/// Roles of the tensors of each shard, with the suffixes of their names: those of the scheme, and
/// the bias when the experts have one.
std::vector<RoleSuffix> roles_of(const ExpertLoadRequest& request,
                                 const ExpertTensorPattern& pattern);

/// @throws Error(kInvalidArgument) naming the shard that does not come from exactly one pattern, a
///         pattern, a role or a size that contradicts another, or the unit of the format that the
///         tensor-parallel cut would split; Error(kUnsupported) for a scheme that this version
///         does not dequantize.
void check_request(const ExpertLoadRequest& request);

}  // namespace fusedmoe
