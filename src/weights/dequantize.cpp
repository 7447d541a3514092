#include "weights/dequantize.h"

#include <fmt/format.h>

#include <cmath>

#include "base/half.h"
#include "quant/codec.h"

namespace fusedmoe {
namespace {

// Stored coordinates of logical (r, c).
struct Stored {
  std::int64_t row, col;
};

Stored stored_at(const ShardSlice& s, std::int64_t r, std::int64_t c) {
  const std::int64_t n = s.first_row + r * s.row_step;
  const std::int64_t k = s.first_col + c;
  return s.is_transposed ? Stored{k, n} : Stored{n, k};
}

std::uint8_t byte_at(const TensorView& view, std::int64_t index) {
  return static_cast<const std::uint8_t*>(view.data)[index];
}

bool is_exponent(DType dtype) { return dtype == DType::kF8E8M0 || dtype == DType::kU8; }

float scale_at(const TensorView& scales, std::int64_t index) {
  if (is_exponent(scales.dtype)) return decode_e8m0(byte_at(scales, index));
  return load_as_f32(scales.data, scales.dtype, index);
}

// Where the scale of a stored element lies in its tensor.
std::int64_t scale_index(const QuantScheme& scheme, const ShardSlice& s, Stored at) {
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  switch (scheme.granularity) {
    case ScaleGranularity::kBlock: {
      const std::int64_t cols = ceil_div(s.tensor_cols, scheme.block_k);
      const std::int64_t rows = ceil_div(s.tensor_rows, scheme.block_n);
      return s.stacked_index * rows * cols + at.row / scheme.block_n * cols +
             at.col / scheme.block_k;
    }
    case ScaleGranularity::kGroup: {
      const std::int64_t cols = ceil_div(s.tensor_cols, scheme.group_size);
      return (s.stacked_index * s.tensor_rows + at.row) * cols + at.col / scheme.group_size;
    }
    case ScaleGranularity::kChannel:
      return s.stacked_index * s.tensor_rows + at.row;
    default:
      return s.stacked_index;
  }
}

float code_at(const QuantScheme& scheme, const TensorView& codes, std::int64_t index) {
  switch (scheme.payload) {
    case PayloadFormat::kE2M1: {
      const std::uint8_t pair = byte_at(codes, index / 2);
      return decode_e2m1(static_cast<std::uint8_t>((index & 1) != 0 ? pair >> 4 : pair & 15));
    }
    case PayloadFormat::kF8E4M3Fnuz:
      return decode_e4m3fnuz(byte_at(codes, index));
    case PayloadFormat::kF8E5M2:
      return decode_e5m2(byte_at(codes, index));
    default:
      return decode_e4m3(byte_at(codes, index));
  }
}

}  // namespace

std::string dequantize(const QuantScheme& scheme, const QuantizedMatrix& matrix,
                       const ShardSlice& slice, DType out_dtype, std::byte* out) {
  for (std::int64_t r = 0; r < slice.rows; ++r) {
    std::int64_t last_scale = -1;
    float scale = 0.0F;
    for (std::int64_t c = 0; c < slice.cols; ++c) {
      const Stored at = stored_at(slice, r, c);
      const std::int64_t si = scale_index(scheme, slice, at);
      if (si != last_scale) {
        last_scale = si;
        scale = scale_at(matrix.scales, si);
        if (!(scale > 0.0F) || !std::isfinite(scale)) {
          return fmt::format(
              "{}: scale of expert {} element [{}, {}]: expected a finite number "
              "> 0, got {}",
              slice.tensor, slice.logical_expert, at.row, at.col, scale);
        }
      }
      const std::int64_t index =
          (slice.stacked_index * slice.tensor_rows + at.row) * slice.tensor_cols + at.col;
      const float code = code_at(scheme, matrix.codes, index);
      if (std::isnan(code)) {
        return fmt::format("{}: expert {} element [{}, {}] is NaN", slice.tensor,
                           slice.logical_expert, at.row, at.col);
      }
      store_from_f32(out, out_dtype, r * slice.cols + c, code * scale);
    }
  }
  return {};
}

}  // namespace fusedmoe
