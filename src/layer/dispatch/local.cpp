#include "layer/dispatch/local.h"

#include <algorithm>

namespace fusedmoe {
namespace {

std::int64_t id_at(const TensorView& ids, std::int64_t index) {
  return ids.dtype == DType::kI32 ? static_cast<const std::int32_t*>(ids.data)[index]
                                  : static_cast<const std::int64_t*>(ids.data)[index];
}

}  // namespace

void dispatch_local(const TopKView& topk, const ExpertIdMap& map, std::int64_t num_local_experts,
                    ExpertBatch& batch) {
  const std::int64_t num_slots = batch.num_tokens * batch.top_k;
  const auto num_ids = static_cast<std::int64_t>(map.local_of_id.size());
  const std::span<std::int64_t> offsets = batch.expert_offsets;
  std::fill(offsets.begin(), offsets.end(), 0);
  for (SlotIndex s = 0; s < num_slots; ++s) {
    const std::int64_t id = id_at(topk.topk_ids, s);
    std::int32_t local = kAbsentSlot;
    if (id < 0 || id >= num_ids) {
      ++batch.num_dropped_ids;
    } else {
      local = map.local_of_id[static_cast<std::size_t>(id)];
    }
    batch.slot_expert[static_cast<std::size_t>(s)] = local;
    if (local >= 0) ++offsets[static_cast<std::size_t>(local) + 1];
  }
  for (std::int64_t e = 0; e < num_local_experts; ++e) {
    offsets[static_cast<std::size_t>(e) + 1] += offsets[static_cast<std::size_t>(e)];
  }
  // Place each slot at its expert's next row; afterwards offsets[e] is the end of e, so shift back.
  for (SlotIndex s = 0; s < num_slots; ++s) {
    const std::int32_t local = batch.slot_expert[static_cast<std::size_t>(s)];
    if (local < 0) continue;
    std::int64_t& next = offsets[static_cast<std::size_t>(local)];
    batch.row_slot[static_cast<std::size_t>(next++)] = s;
  }
  for (std::int64_t e = num_local_experts; e > 0; --e) {
    offsets[static_cast<std::size_t>(e)] = offsets[static_cast<std::size_t>(e) - 1];
  }
  offsets[0] = 0;
}

}  // namespace fusedmoe
