// Turns the recipes of a family into facts about one layer of one model.
#pragma once

#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/families/family.h"

namespace fusedmoe {

/// What the rule says about each layer.
enum class LayerKind { kDense, kMoe, kHashMoe };

/// One entry for each layer of the model.
/// @throws Error(kCorruptData) for lists of another length than the model and numbers out of range.
std::vector<LayerKind> layer_kinds(const ModelFamily& family, const ModelConfig& config);

/// The routing function of a layer; `has_correction_bias` says whether the recipe wants one.
struct ResolvedRouting {
  TopKConfig config;
  bool has_correction_bias = false;
};
/// @throws Error(kCorruptData), Error(kUnsupported) for a scoring function or method that is
/// unknown.
ResolvedRouting resolve_routing(const ModelFamily& family, const ModelConfig& config,
                                std::int64_t num_routed, int layer);

/// @throws Error(kUnsupported) for an activation without a name of ours.
ActivationConfig resolve_activation(const ModelFamily& family, const ModelConfig& config);

/// Throws Error(kUnsupported) for a setting that the family's row refuses.
void check_refused(const ModelFamily& family, const ModelConfig& config);

}  // namespace fusedmoe
