#include "layer/experts/cpu/packed_layout.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"

namespace fusedmoe::cpu {
namespace {

std::int64_t element_bytes(DType dtype) { return dtype_bits(dtype) / 8; }

// Where element (k, column) of a panel lies, in elements.
std::int64_t panel_index(DType dtype, std::int64_t k, std::int64_t column) {
  if (dtype == DType::kBF16) return (k / 2) * (2 * kPanelColumns) + column * 2 + (k & 1);
  return k * kPanelColumns + column;
}

// k [first, last) of one source row, same dtype, contiguous along k: plain moves.
template <class T>
void move_column(const T* source, std::int64_t first, std::int64_t last, DType dtype,
                 std::int64_t column, T* panel) {
  for (std::int64_t k = first; k < last; ++k) {
    std::memcpy(panel + panel_index(dtype, k, column), source + k, sizeof(T));
  }
}

void pack_column(const MatrixView& source, std::int64_t row, std::int64_t first, std::int64_t last,
                 DType dtype, std::int64_t column, std::byte* panel) {
  const std::int64_t start = row * source.row_stride;
  if (source.dtype == dtype && source.col_stride == 1) {
    if (dtype == DType::kF32) {
      move_column(static_cast<const float*>(source.data) + start, first, last, dtype, column,
                  reinterpret_cast<float*>(panel));
    } else {
      move_column(static_cast<const std::uint16_t*>(source.data) + start, first, last, dtype,
                  column, reinterpret_cast<std::uint16_t*>(panel));
    }
    return;
  }
  const std::int64_t bytes = element_bytes(dtype);
  for (std::int64_t k = first; k < last; ++k) {
    const std::int64_t from = start + k * source.col_stride;
    const std::int64_t to = panel_index(dtype, k, column);
    if (source.dtype == dtype) {  // a move, so that every NaN keeps its payload
      std::memcpy(panel + to * bytes, static_cast<const std::byte*>(source.data) + from * bytes,
                  static_cast<std::size_t>(bytes));
    } else {
      store_from_f32(panel, dtype, to, load_as_f32(source.data, source.dtype, from));
    }
  }
}

void zero_column(std::int64_t first, std::int64_t last, DType dtype, std::int64_t column,
                 std::byte* panel) {
  const std::int64_t bytes = element_bytes(dtype);
  for (std::int64_t k = first; k < last; ++k) {
    std::memset(panel + panel_index(dtype, k, column) * bytes, 0, static_cast<std::size_t>(bytes));
  }
}

void place_bias(std::span<const float> bias, std::int64_t panel, std::int64_t columns,
                float* destination) {
  const std::int64_t first = panel * columns;
  const std::int64_t count =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(bias.size()) - first, 0, columns);
  if (count > 0) std::copy_n(bias.data() + first, count, destination);
}

}  // namespace

PanelMatrix make_panel_matrix(std::int64_t n, std::int64_t k, DType dtype, std::int64_t k_unit) {
  PanelMatrix m;
  m.k = k;
  m.k_padded = round_up(k, k_unit);
  m.num_columns = n;
  m.columns_per_panel = kPanelColumns;
  m.num_panels = (n + kPanelColumns - 1) / kPanelColumns;
  m.panel_bytes = static_cast<std::size_t>(m.k_padded * kPanelColumns * element_bytes(dtype));
  return m;
}

ExpertLayout make_expert_layout(const ExpertsProblem& problem, std::int64_t k_unit) {
  ExpertLayout layout;
  layout.dtype = problem.weight_dtype;
  layout.is_gated = problem.activation.is_gated;
  layout.has_bias = problem.has_bias;
  layout.w13 =
      make_panel_matrix(problem.intermediate_size, problem.hidden_size, layout.dtype, k_unit);
  if (layout.is_gated) {
    layout.w13.columns_per_panel = kGatedColumns;
    layout.w13.num_panels = (problem.intermediate_size + kGatedColumns - 1) / kGatedColumns;
  }
  layout.w2 =
      make_panel_matrix(problem.hidden_size, problem.intermediate_size, layout.dtype, k_unit);
  std::size_t used = 0;
  for (PanelMatrix* m : {&layout.w13, &layout.w2}) {
    m->offset = used;
    used += m->panel_bytes * static_cast<std::size_t>(m->num_panels);
  }
  if (layout.has_bias) {
    for (PanelMatrix* m : {&layout.w13, &layout.w2}) {
      m->bias_offset = used;
      used += static_cast<std::size_t>(m->num_panels * kPanelColumns) * sizeof(float);
    }
  }
  layout.slot_bytes = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(used), 64));
  return layout;
}

void pack_panel_columns(const MatrixView& source, std::int64_t first_row, std::int64_t num_columns,
                        std::int64_t first_column, DType dtype, std::int64_t k_padded,
                        std::byte* panel) {
  // A stretch of the panel that stays in the first-level cache while all columns are written to it.
  constexpr std::int64_t kStretch = 128;
  const std::int64_t available = std::clamp<std::int64_t>(source.rows - first_row, 0, num_columns);
  for (std::int64_t first = 0; first < k_padded; first += kStretch) {
    const std::int64_t last = std::min(first + kStretch, k_padded);
    for (std::int64_t c = 0; c < num_columns; ++c) {
      const std::int64_t filled = c < available ? std::clamp(source.cols, first, last) : first;
      if (filled > first) {
        pack_column(source, first_row + c, first, filled, dtype, first_column + c, panel);
      }
      zero_column(filled, last, dtype, first_column + c, panel);
    }
  }
}

void pack_matrix(const MatrixView& source, const PanelMatrix& matrix, DType dtype,
                 std::byte* panels) {
  for (std::int64_t p = 0; p < matrix.num_panels; ++p) {
    pack_panel_columns(source, p * kPanelColumns, kPanelColumns, 0, dtype, matrix.k_padded,
                       panels + static_cast<std::size_t>(p) * matrix.panel_bytes);
  }
}

void PanelPacker::pack(const ExpertTensors& tensors, std::byte* slot) const {
  const PanelMatrix& w13 = layout_.w13;
  for (std::int64_t p = 0; p < w13.num_panels; ++p) {
    std::byte* panel = slot + w13.offset + static_cast<std::size_t>(p) * w13.panel_bytes;
    const std::int64_t row = p * w13.columns_per_panel;
    pack_panel_columns(tensors.w1, row, w13.columns_per_panel, 0, layout_.dtype, w13.k_padded,
                       panel);
    if (layout_.is_gated) {
      pack_panel_columns(tensors.w3, row, kGatedColumns, kGatedColumns, layout_.dtype, w13.k_padded,
                         panel);
    }
  }
  pack_matrix(tensors.w2, layout_.w2, layout_.dtype, slot + layout_.w2.offset);
  if (!layout_.has_bias) return;
  auto* b13 = reinterpret_cast<float*>(slot + w13.bias_offset);
  auto* b2 = reinterpret_cast<float*>(slot + layout_.w2.bias_offset);
  std::fill_n(b13, w13.num_panels * kPanelColumns, 0.0F);
  std::fill_n(b2, layout_.w2.num_panels * kPanelColumns, 0.0F);
  for (std::int64_t p = 0; p < w13.num_panels; ++p) {
    float* to = b13 + p * kPanelColumns;
    place_bias(tensors.b1, p, w13.columns_per_panel, to);
    if (layout_.is_gated) place_bias(tensors.b3, p, kGatedColumns, to + kGatedColumns);
  }
  for (std::int64_t p = 0; p < layout_.w2.num_panels; ++p) {
    place_bias(tensors.b2, p, kPanelColumns, b2 + p * kPanelColumns);
  }
}

}  // namespace fusedmoe::cpu
