// The packed weights of one expert, as every CPU kernel of an arithmetic reads them.
//
// A matrix [n, k] becomes panels of 64 output columns, each one stream of memory:
//   16-bit brain float   [k / 2][64][2]   two neighboring k side by side: one shift and one mask
//                                         widen them, vdpbf16ps and AMX tiles take them as they are
//   f16, f32             [k][64]
// In w13 of a gated expert a panel is 32 gate columns, then the 32 up columns of the same numbers,
// so that whoever holds a panel's sums can apply the activation. n and k are padded with zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusedmoe/kernels.h"
#include "layer/experts/cpu/ops.h"
#include "weights/packer.h"

namespace fusedmoe::cpu {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// One packed matrix.
struct PanelMatrix {
  std::int64_t k = 0;  ///< logical reduction length
  std::int64_t k_padded = 0;
  std::int64_t num_columns = 0;  ///< logical columns that the panels yield (after gating)
  std::int64_t columns_per_panel = 0;
  std::int64_t num_panels = 0;
  std::size_t panel_bytes = 0;
  std::size_t offset = 0;       ///< of panel 0 in the expert's slot
  std::size_t bias_offset = 0;  ///< f32 [num_panels][64]; valid when the layer has biases
};

struct ExpertLayout {
  DType dtype = DType::kBF16;
  bool is_gated = true;
  bool has_bias = false;
  PanelMatrix w13;
  PanelMatrix w2;
  std::size_t slot_bytes = 0;
};

/// @param k_unit multiple to which reductions are padded: 2, or 32 for AMX.
ExpertLayout make_expert_layout(const ExpertsProblem& problem, std::int64_t k_unit);

/// A lone matrix [n, k] in the same form (the router).
PanelMatrix make_panel_matrix(std::int64_t n, std::int64_t k, DType dtype, std::int64_t k_unit);

/// Packs rows of `source` (or nothing where it ends) into one 64-column panel.
void pack_panel_columns(const MatrixView& source, std::int64_t first_row, std::int64_t num_columns,
                        std::int64_t first_column, DType dtype, std::int64_t k_padded,
                        std::byte* panel);

/// Packs a lone matrix; `panels` holds num_panels * panel_bytes.
void pack_matrix(const MatrixView& source, const PanelMatrix& matrix, DType dtype,
                 std::byte* panels);

class PanelPacker final : public Packer {
 public:
  explicit PanelPacker(const ExpertLayout& layout) : layout_(layout) {}
  std::size_t slot_bytes() const noexcept override { return layout_.slot_bytes; }
  void pack(const ExpertTensors& tensors, std::byte* slot) const override;

 private:
  ExpertLayout layout_;
};

}  // namespace fusedmoe::cpu
