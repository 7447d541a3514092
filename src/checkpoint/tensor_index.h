// Look-ups in a list of tensors that is sorted by name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "fusedmoe/checkpoint.h"

namespace fusedmoe {

class TensorIndex {
 public:
  /// @param tensors sorted by name; must outlive this object.
  explicit TensorIndex(std::span<const TensorInfo> tensors) : tensors_(tensors) {}

  /// nullptr when there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  /// All tensors whose name starts with `prefix`.
  std::span<const TensorInfo> below(std::string_view prefix) const;
  std::span<const TensorInfo> all() const noexcept { return tensors_; }

 private:
  std::span<const TensorInfo> tensors_;
};

}  // namespace fusedmoe
