// Views of memory that somebody else owns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "fusedmoe/dtype.h"

namespace fusedmoe {

/// Up to eight dimensions, outermost first. A value: copying it never allocates.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  /// @throws Error(kInvalidArgument) when there are more than kMaxRank dims.
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const noexcept { return rank_; }
  std::int64_t operator[](int axis) const noexcept { return dims_[static_cast<std::size_t>(axis)]; }
  std::span<const std::int64_t> dims() const noexcept {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  /// Product of the dims; 1 for rank 0.
  std::int64_t num_elements() const noexcept;
  /// "[37, 64]".
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) noexcept;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// A read-only tensor in C order. Only the outermost axis may have a stride of its own.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  /// Elements from one index of axis 0 to the next; 0 means contiguous.
  std::int64_t row_stride = 0;
};

/// A tensor that the callee writes.
struct MutableTensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t row_stride = 0;

  operator TensorView() const noexcept { return {data, dtype, shape, row_stride}; }
};

/// Copies elements between F32, BF16 and F16; narrowing rounds to nearest even.
/// @throws Error(kInvalidArgument) when the shapes differ or a dtype is none of the three.
void convert(TensorView from, MutableTensorView to);

/// A matrix somewhere inside a larger tensor: any slice, transposition or interleaving of a
/// checkpoint tensor is one of these.
struct MatrixView {
  const void* data = nullptr;  ///< element (0, 0)
  DType dtype = DType::kF32;   ///< F32, BF16 or F16
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;  ///< elements from (r, c) to (r + 1, c)
  std::int64_t col_stride = 1;  ///< elements from (r, c) to (r, c + 1)
};

}  // namespace fusedmoe
