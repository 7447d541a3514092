// The expert-sorted form of a top-k result: a stable counting sort of the slots.
#include <fmt/format.h>

#include "fusedmoe/error.h"
#include "fusedmoe/routing.h"

namespace fusedmoe {
namespace {

void check(const TopKView& topk, std::int64_t num_experts) {
  const TensorView& ids = topk.topk_ids;
  const TensorView& weights = topk.topk_weights;
  const bool ids_ok =
      ids.shape.rank() == 2 && (ids.dtype == DType::kI32 || ids.dtype == DType::kI64);
  if (!ids_ok || weights.shape != ids.shape || weights.dtype != DType::kF32) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("[routing] top-k: expected ids [num_tokens, top_k] I32 or I64 and weights F32 "
                    "of the same shape, got {} {} and {} {}, pass the output of one routing",
                    ids.shape.to_string(), dtype_name(ids.dtype), weights.shape.to_string(),
                    dtype_name(weights.dtype)));
  }
  if (num_experts < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[routing] num_experts: expected 0 or more, got {}, pass the number of "
                            "experts that ids may name",
                            num_experts));
  }
}

std::int64_t offset_of(const TensorView& view, std::int64_t slot) {
  const std::int64_t k = view.shape[1];
  const std::int64_t stride = view.row_stride == 0 ? k : view.row_stride;
  return slot / k * stride + slot % k;
}

std::int64_t id_of(const TensorView& ids, std::int64_t slot) {
  const std::int64_t at = offset_of(ids, slot);
  return ids.dtype == DType::kI32 ? static_cast<const std::int32_t*>(ids.data)[at]
                                  : static_cast<const std::int64_t*>(ids.data)[at];
}

}  // namespace

ExpertSortedTopK sort_by_expert(const TopKView& topk, std::int64_t num_experts) {
  check(topk, num_experts);
  const std::int64_t num_slots = topk.topk_ids.shape.num_elements();
  ExpertSortedTopK sorted;
  sorted.expert_offsets.assign(static_cast<std::size_t>(num_experts) + 1, 0);
  sorted.scatter_index.assign(static_cast<std::size_t>(num_slots), -1);
  const auto expert_of = [&](std::int64_t slot) -> std::int64_t {
    const std::int64_t id = id_of(topk.topk_ids, slot);
    return id >= 0 && id < num_experts ? id : -1;
  };
  for (std::int64_t s = 0; s < num_slots; ++s) {
    const std::int64_t e = expert_of(s);
    if (e >= 0) ++sorted.expert_offsets[static_cast<std::size_t>(e) + 1];
  }
  for (std::size_t e = 1; e < sorted.expert_offsets.size(); ++e) {
    sorted.expert_offsets[e] += sorted.expert_offsets[e - 1];
  }
  const auto num_sorted = static_cast<std::size_t>(sorted.expert_offsets.back());
  sorted.gather_index.resize(num_sorted);
  sorted.gate_scale.resize(num_sorted);
  std::vector<std::int64_t> next(sorted.expert_offsets.begin(), sorted.expert_offsets.end() - 1);
  const auto* weights = static_cast<const float*>(topk.topk_weights.data);
  for (std::int64_t s = 0; s < num_slots; ++s) {
    const std::int64_t e = expert_of(s);
    if (e < 0) continue;
    const std::int64_t position = next[static_cast<std::size_t>(e)]++;
    sorted.gather_index[static_cast<std::size_t>(position)] = s;
    sorted.scatter_index[static_cast<std::size_t>(s)] = position;
    sorted.gate_scale[static_cast<std::size_t>(position)] =
        weights[offset_of(topk.topk_weights, s)];
  }
  return sorted;
}

}  // namespace fusedmoe
