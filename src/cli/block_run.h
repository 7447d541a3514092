// One forward of a whole MoE block, with everything it takes and gives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fusedmoe/layer.h"
#include "owned_tensor.h"

namespace fusedmoe::cli {

/// Inputs of a block, as files hold them.
struct BlockInputs {
  OwnedTensor hidden_states;  ///< [T, H], of the block's hidden dtype
  std::optional<OwnedTensor> router_logits = {};
  std::optional<OwnedTensor> topk_ids = {};
  std::optional<OwnedTensor> topk_weights = {};
  std::optional<OwnedTensor> input_ids = {};

  std::int64_t num_tokens() const noexcept { return hidden_states.shape[0]; }
  /// Views of all of it, valid while this object lives.
  MoeBlockInputs views() const;
};

struct BlockResult {
  OwnedTensor hidden_states;  ///< [T, H], of the block's hidden dtype
  std::vector<float> router_logits;
  std::vector<std::int32_t> topk_ids;
  std::vector<float> topk_weights;
  std::vector<std::int64_t> tokens_per_expert;
};

/// Runs a planned and loaded block once; allocates its own workspace.
BlockResult forward_block(const MoeBlock& block, const BlockInputs& inputs);

}  // namespace fusedmoe::cli
