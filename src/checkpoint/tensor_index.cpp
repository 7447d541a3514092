#include "checkpoint/tensor_index.h"

#include <algorithm>

namespace fusedmoe {

const TensorInfo* TensorIndex::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(tensors_, name, {}, &TensorInfo::name);
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::span<const TensorInfo> TensorIndex::below(std::string_view prefix) const {
  const auto begin = std::ranges::lower_bound(tensors_, prefix, {}, &TensorInfo::name);
  auto end = begin;
  while (end != tensors_.end() && end->name.starts_with(prefix)) ++end;
  return {begin, end};
}

}  // namespace fusedmoe
