// Carves a workspace into arrays: the same code measures and places, so the two cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fusedmoe {

/// With a null base it only counts bytes.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::span<std::byte> memory) noexcept : base_(memory.data()) {}

  std::byte* take_bytes(std::int64_t num_bytes) noexcept {
    constexpr std::int64_t kAlign = 64;
    std::byte* result = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (num_bytes + kAlign - 1) / kAlign * kAlign;
    return result;
  }

  template <class T>
  std::span<T> take(std::int64_t count) noexcept {
    auto* data = reinterpret_cast<T*>(take_bytes(count * static_cast<std::int64_t>(sizeof(T))));
    return {data, data == nullptr ? 0 : static_cast<std::size_t>(count)};
  }

  /// The next `num_bytes` bytes, not taken.
  std::span<std::byte> rest(std::size_t num_bytes) const noexcept {
    return {base_ + used_, num_bytes};
  }

  std::size_t num_bytes() const noexcept { return static_cast<std::size_t>(used_); }

 private:
  std::byte* base_ = nullptr;
  std::int64_t used_ = 0;
};

}  // namespace fusedmoe
