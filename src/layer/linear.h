// A small dense product with f32 sums: the router and the gate of shared experts.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "fusedmoe/executor.h"
#include "layer/arena.h"
#include "layer/experts/cpu/packed_layout.h"
#include "layer/stage_types.h"

namespace fusedmoe {

/// y[t, n] = sum_k x[t, k] * w[n, k] + b[n], one fma chain over k for each output: arithmetic
/// cpu_f32, so the bits of a row depend on nothing but the row.
class Linear {
 public:
  Linear() = default;
  /// @param weight [n * k] row-major. Held as bf16 when every value is exact in it.
  Linear(std::int64_t n, std::int64_t k, std::span<const float> weight,
         std::span<const float> bias);

  std::int64_t num_outputs() const noexcept { return n_; }
  std::size_t num_bytes() const noexcept { return num_bytes_; }
  /// Scratch of a product with inputs of `k` numbers; known before there are weights.
  static std::byte* take_scratch(Arena& arena, std::int64_t k, std::int64_t max_rows);
  /// @param out f32 [num_rows, n] contiguous.
  void run(const HiddenRows& x, std::int64_t num_rows, float* out, Arena scratch,
           Executor& executor) const;

 private:
  /// Rows handled at once, so that scratch stays bounded.
  static constexpr std::int64_t kChunkRows = 1024;
  struct Chunk;
  void run_chunk(const HiddenRows& x, std::int64_t num_rows, float* out, std::byte* packed,
                 Executor& executor) const;

  struct FreeAligned {
    void operator()(std::byte* memory) const noexcept;
  };
  std::int64_t n_ = 0, k_ = 0;
  DType dtype_ = DType::kF32;
  cpu::PanelMatrix matrix_;
  std::unique_ptr<std::byte, FreeAligned> panels_;
  std::size_t num_bytes_ = 0;
  std::vector<float> bias_;  ///< padded to whole panels; empty without one
};

}  // namespace fusedmoe
