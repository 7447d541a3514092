// The k best of a stream of keys, in order.
#pragma once

#include <cstdint>

namespace fusedmoe::routing {

/// Keeps the `capacity` largest keys offered so far: key descending, and because ids are offered in
/// ascending order and an equal key never overtakes, id ascending among equals. Keys are never NaN.
/// The caller owns the memory.
class TopList {
 public:
  TopList(float* keys, std::int32_t* ids, std::int64_t capacity)
      : keys_(keys), ids_(ids), capacity_(capacity) {}

  void offer(float key, std::int32_t id) {
    std::int64_t at = size_;
    if (size_ == capacity_) {
      if (!(key > keys_[capacity_ - 1])) return;
      --at;
    } else {
      ++size_;
    }
    for (; at > 0 && keys_[at - 1] < key; --at) {
      keys_[at] = keys_[at - 1];
      ids_[at] = ids_[at - 1];
    }
    keys_[at] = key;
    ids_[at] = id;
  }

  /// Offers keys[id] for first <= id < last.
  void offer_range(const float* keys, std::int64_t first, std::int64_t last) {
    for (std::int64_t id = first; id < last; ++id) offer(keys[id], static_cast<std::int32_t>(id));
  }

 private:
  float* keys_;
  std::int32_t* ids_;
  std::int64_t capacity_;
  std::int64_t size_ = 0;
};

}  // namespace fusedmoe::routing
