// What flows between the stages of a layer: plain structs without behaviour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fusedmoe/dtype.h"

namespace fusedmoe {

/// A slot is (token, j), j the column of topk_ids; its number is token * top_k + j.
using SlotIndex = std::int64_t;

/// Values of `ExpertBatch::slot_expert` for slots that no local expert computes.
constexpr std::int32_t kAbsentSlot = -1;    ///< another rank's, or no expert at all
constexpr std::int32_t kIdentitySlot = -2;  ///< the expert that returns its input

/// Routed work of one rank: for each local expert a contiguous range of rows, ascending by slot.
/// All memory lives in the workspace.
struct ExpertBatch {
  std::int64_t num_tokens = 0;
  std::int64_t top_k = 0;
  std::span<std::int64_t> expert_offsets;  ///< [num_local_experts + 1]
  std::span<SlotIndex> row_slot;           ///< row -> slot, [expert_offsets.back()]
  std::span<std::int32_t> slot_expert;     ///< [num_tokens * top_k] local expert or k...Slot
  std::int64_t num_dropped_ids = 0;        ///< ids outside every expert range
};

/// Hidden states of a batch, rows of `hidden_size` elements at `row_stride_bytes`.
struct HiddenRows {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t row_stride_bytes = 0;

  const std::byte* row(std::int64_t token) const noexcept {
    return data + token * row_stride_bytes;
  }
};

/// One result row for each slot, in the hidden dtype: [num_tokens * top_k, hidden_size], weighted
/// and rounded. Rows of absent slots are not written.
struct SlotRows {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t row_bytes = 0;

  std::byte* row(SlotIndex slot) const noexcept { return data + slot * row_bytes; }
};

}  // namespace fusedmoe
