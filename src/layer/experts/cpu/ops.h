// The inner operations of the expert MLP on a CPU: one table of functions for each (instruction
// set, weight format). Everything above them (run.cpp) is the same for all.
//
// Rows of one expert are cut into blocks. A block of packed activations holds its rows in the order
// that the kernel's inner product wants; only the functions of one table read what they wrote.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusedmoe/activation.h"
#include "fusedmoe/dtype.h"

namespace fusedmoe::cpu {

/// Output columns of one panel of packed weights (packed_layout.h).
constexpr std::int64_t kPanelColumns = 64;
/// Activated columns that a panel of a gated expert yields.
constexpr std::int64_t kGatedColumns = 32;

/// A block of packed activations: `rows` rows of `k_padded` numbers.
struct ActivationBlock {
  std::byte* data = nullptr;
  int rows = 0;
  std::int64_t k_padded = 0;
};

struct PackRowsArgs {
  const std::byte* const* rows = nullptr;  ///< [block.rows]
  DType dtype = DType::kF32;
  std::int64_t k = 0;
  ActivationBlock block;
};

struct GateUpArgs {
  ActivationBlock x;
  const std::byte* panel = nullptr;
  const float* bias = nullptr;          ///< [64] or nullptr
  const float* input_weight = nullptr;  ///< [x.rows]: router weight on the input, or nullptr
  ActivationConfig activation;
  DType hidden_dtype = DType::kF32;  ///< the result is rounded to it
  ActivationBlock out;               ///< same rows
  std::int64_t out_column = 0;       ///< of the panel's first activated column
  std::int64_t out_columns = 0;      ///< logical columns from there on: the rest become zeros
};

struct DownArgs {
  ActivationBlock a;
  const std::byte* panel = nullptr;
  const float* bias = nullptr;           ///< [64] or nullptr
  const float* output_weight = nullptr;  ///< [a.rows], or nullptr
  DType out_dtype = DType::kF32;
  std::byte* const* out_rows = nullptr;  ///< [a.rows], at the panel's first column
  std::int64_t out_columns = 0;          ///< at most 64
};

struct CombineArgs {
  const std::byte* const* slots = nullptr;  ///< rows to add, in order
  int num_slots = 0;
  float factor = 1.0F;
  DType dtype = DType::kF32;
  std::byte* out = nullptr;
  std::int64_t columns = 0;
};

struct Ops {
  int max_rows = 0;  ///< rows of a full block
  /// Bytes of one row of a block; a block of r rows takes r times that.
  std::int64_t (*row_bytes)(std::int64_t k_padded) = nullptr;
  void (*pack_rows)(const PackRowsArgs&) = nullptr;
  void (*gate_up)(const GateUpArgs&) = nullptr;
  void (*down)(const DownArgs&) = nullptr;
  /// y = round(factor * sum), summed from +0 in the order given.
  void (*combine)(const CombineArgs&) = nullptr;
  /// Called by each thread before its first and after its last operation of a run.
  void (*thread_begin)() = nullptr;
  void (*thread_end)() = nullptr;
};

}  // namespace fusedmoe::cpu
