// The strict loader: runs a shard plan against a checkpoint.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fusedmoe/checkpoint.h"
#include "fusedmoe/layer.h"
#include "fusedmoe/model.h"
#include "fusedmoe/parallel.h"
#include "weights/ledger.h"

namespace fusedmoe {

/// One group of experts to load: the routed ones, or the shared one.
struct ExpertLoadRequest {
  std::string group;  ///< "routed" or "shared", for the ledger and messages
  const std::vector<ExpertTensorPattern>* tensors = nullptr;
  const QuantAnnouncement* quant = nullptr;
  std::int64_t num_experts = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  ///< whole model
  bool is_gated = true;
  bool has_bias = false;
  ParallelLayout parallel;
  DType weight_dtype = DType::kBF16;
  /// Receives each local expert once, from any thread; views are valid during the call only.
  std::function<void(std::int64_t local_expert, const ExpertTensors&)> sink;
};

/// Loads one group of experts. Problems are collected in the ledger; nothing is thrown for a
/// missing or misshapen tensor, and no expert is handed to the sink unless the whole group is
/// sound.
/// @throws Error(kInvalidArgument) when the layout cannot be cut (make_shard_plan).
void load_experts(const Checkpoint& checkpoint, const ExpertLoadRequest& request,
                  const LoadOptions& options, LoadLedger& ledger);

/// Marks the tensors of a group that another rank loads.
void skip_experts(const Checkpoint& checkpoint, const ExpertLoadRequest& request,
                  LoadLedger& ledger);

/// Loads a small dense tensor (router weight, bias, scale) as f32, checking its shape against
/// `accepted` and marking it used. Returns empty and records the problem when it is unsound.
std::vector<float> load_dense_f32(const Checkpoint& checkpoint, const std::string& name,
                                  const std::vector<Shape>& accepted, LoadLedger& ledger);

/// Loads a table [vocab, top_k] of expert ids (I64 or I32), each in [0, num_experts).
std::vector<std::int64_t> load_id_table(const Checkpoint& checkpoint, const std::string& name,
                                        std::int64_t top_k, std::int64_t num_experts,
                                        LoadLedger& ledger);

}  // namespace fusedmoe
