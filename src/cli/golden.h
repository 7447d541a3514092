// Recorded inputs and outputs of MoE blocks beside a checkpoint, and how results compare with them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "block_run.h"
#include "owned_tensor.h"

namespace fusedmoe::cli {

/// One comparison: worst row error against its tolerance.
struct Check {
  std::string name;
  double error = 0.0;
  double tolerance = 0.0;
  std::int64_t rows = 0;  ///< compared
  std::string note = {};  ///< rows left out, and why

  bool is_ok() const noexcept { return error <= tolerance; }
};

/// The recording of one layer (tests/data/README.md describes the file). Absent tensors are empty.
struct GoldenLayer {
  OwnedTensor input;
  std::optional<OwnedTensor> input_ids = {};
  std::optional<OwnedTensor> output = {};
  std::optional<OwnedTensor> routed_only = {};
  std::optional<OwnedTensor> router_logits = {};
  std::optional<OwnedTensor> topk_ids = {};
  std::optional<OwnedTensor> topk_weights = {};
  bool has_bf16 = false;
};

/// Inputs of a block from a recording, in the block's hidden dtype.
BlockInputs golden_inputs(const GoldenLayer& golden, DType hidden_dtype);

/// `folder`/golden.safetensors, opened; empty when there is none.
std::optional<Checkpoint> open_golden(const std::filesystem::path& folder);
/// Layers that the file has an input for, ascending.
std::vector<int> recorded_layers(const Checkpoint& file);
/// The recording of one layer; empty when the file has no input for it.
/// @throws Error(kCorruptData) when a recorded tensor has another dtype or number of tokens.
std::optional<GoldenLayer> read_golden_layer(const Checkpoint& file, int layer);

/// max |got - expected| / max |expected| of the worst row; infinity where a result is not finite.
/// @param rows rows to compare; empty: all.
double worst_row_error(std::span<const float> got, std::span<const float> expected,
                       std::int64_t num_rows, const std::vector<bool>& rows = {});

/// Checks outputs, logits and choices of an f32 run.
std::vector<Check> check_f32(const GoldenLayer& golden, const BlockResult& result,
                             double tolerance);
Check check_routed_only(const GoldenLayer& golden, const OwnedTensor& output, double tolerance);
/// Compares the rows of a bf16 run that chose the recorded experts with the f32 output.
Check check_bf16(const GoldenLayer& golden, const BlockResult& result, double tolerance);

}  // namespace fusedmoe::cli
