// Which scale belongs to which element of a stored matrix.
#pragma once

#include <cstdint>

#include "fusedmoe/quant.h"

namespace fusedmoe {

/// The scales of one stored matrix, row-major: element (r, c) has scale
/// (r / unit_rows, c / unit_cols). Ragged blocks at the lower and right edge have one of their own.
struct ScaleGrid {
  std::int64_t unit_rows = 1;
  std::int64_t unit_cols = 1;
  std::int64_t rows = 1;
  std::int64_t cols = 1;

  std::int64_t num_scales() const noexcept { return rows * cols; }
  std::int64_t index(std::int64_t row, std::int64_t col) const noexcept {
    return row / unit_rows * cols + col / unit_cols;
  }
};

/// @param rows, cols  of the matrix as stored, at least 1. Sizes in the scheme are at least 1.
ScaleGrid scale_grid(const QuantScheme& scheme, std::int64_t rows, std::int64_t cols) noexcept;

}  // namespace fusedmoe
