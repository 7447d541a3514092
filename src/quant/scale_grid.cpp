#include "quant/scale_grid.h"

namespace fusedmoe {
namespace {

ScaleGrid grid_of_units(std::int64_t unit_rows, std::int64_t unit_cols, std::int64_t rows,
                        std::int64_t cols) {
  return {unit_rows, unit_cols, (rows + unit_rows - 1) / unit_rows,
          (cols + unit_cols - 1) / unit_cols};
}

}  // namespace

ScaleGrid scale_grid(const QuantScheme& scheme, std::int64_t rows, std::int64_t cols) noexcept {
  switch (scheme.granularity) {
    case ScaleGranularity::kBlock:
      return grid_of_units(scheme.block_n, scheme.block_k, rows, cols);
    case ScaleGranularity::kGroup:
      return grid_of_units(1, scheme.group_size, rows, cols);
    case ScaleGranularity::kChannel:
      return grid_of_units(1, cols, rows, cols);
    case ScaleGranularity::kTensor:
    case ScaleGranularity::kNone:
      return grid_of_units(rows, cols, rows, cols);
  }
  return grid_of_units(rows, cols, rows, cols);
}

}  // namespace fusedmoe
