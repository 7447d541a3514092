// From config.json, side files and tensor headers to the description of a model's MoE layers.
#pragma once

#include <span>
#include <string>

#include "checkpoint/config.h"
#include "checkpoint/families/family.h"
#include "checkpoint/families/resolve.h"
#include "checkpoint/tensor_index.h"
#include "fusedmoe/model.h"
#include "quant/announce.h"

namespace fusedmoe {

/// What describing reads of a checkpoint; no tensor bytes.
struct CheckpointFacts {
  std::string config_json;
  std::string config_file = "config.json";  ///< for messages
  SideFileReader side_file;
  std::span<const TensorInfo> tensors;  ///< sorted by name
};

/// `describe_model` without a Checkpoint. Same errors.
ModelDescription describe(const CheckpointFacts& facts, const DescribeOptions& options);

/// The row for a config: the one that `options` asks for, else the one that claims its model_type.
/// @throws Error(kUnsupported) naming the nearest supported types, Error(kNotFound) for a family
///         name or file that is not there.
ModelFamily select_family(const ModelConfig& config, const DescribeOptions& options);

/// Everything that is the same for all layers of a model.
struct ModelContext {
  const ModelFamily& family;
  const ModelConfig& config;
  const TensorIndex& tensors;
  QuantAnnouncement quant;
  std::string layer_pattern;  ///< with "{layer}", wrappers included
};

/// Replaces `placeholder` in `pattern` by a number.
std::string with_number(const std::string& pattern, const std::string& placeholder,
                        std::int64_t number);

/// Number of routed experts of a layer; 0 when the config gives it none (or too few to route).
std::int64_t experts_of_layer(const ModelFamily& family, const ModelConfig& config, int layer);

MoeLayerDescription describe_layer(const ModelContext& context, int layer, LayerKind kind);

/// Tensors, number format and element type of a group of experts.
struct ExpertStorage {
  std::vector<ExpertTensorPattern> tensors;
  QuantAnnouncement quant;
  DType weight_dtype = DType::kBF16;
};
/// Chooses among `layouts` by the announcement and by what the file has.
/// @param num_experts 1 for a shared expert.
ExpertStorage find_storage(const ModelContext& context, const std::vector<ExpertLayout>& layouts,
                           const std::string& layer_prefix, std::int64_t num_experts,
                           bool has_bias);

}  // namespace fusedmoe
