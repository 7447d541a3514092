// Which slice of which checkpoint tensor a rank needs, and where it goes: pure arithmetic.
//
// Every layout on disk (one tensor an expert, stacked, transposed, gate and up concatenated or
// interleaved, flattened) and every tensor-parallel cut is a strided slice of one tensor, so the
// plan is a list of such slices and can be printed and tested without a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/load.h"

namespace fusedmoe {

/// Stands for the expert's number in the module name of a pattern.
inline constexpr std::string_view kExpertMark = "{expert}";

/// "w1", "w3", "w2", "w13".
std::string_view shard_name(ExpertShard shard) noexcept;
/// "weight", "bias", "weight_scale", ...
std::string_view role_name(ParamRole role) noexcept;

/// One matrix [rows, cols] (or vector, cols == 1) of one local expert: part of a checkpoint tensor.
///
/// The tensor holds, for each expert that it stacks, a matrix of `tensor_rows` x `tensor_cols` as
/// stored. Logical row r, column c of the slice is the stored element
/// (first_row + r * row_step, first_col + c), or with is_transposed
/// (first_col + c, first_row + r * row_step).
struct ShardSlice {
  std::string tensor;
  ParamRole role = ParamRole::kWeight;
  ExpertShard shard = ExpertShard::kW1;  ///< kW1, kW3 or kW2
  std::int64_t logical_expert = 0;
  std::int64_t local_expert = 0;
  std::int64_t stacked_index = 0;  ///< of the expert within the tensor
  Shape tensor_shape;              ///< of the whole tensor, in elements of its format
  std::int64_t tensor_rows = 0;
  std::int64_t tensor_cols = 0;
  bool is_transposed = false;
  std::int64_t rows = 0, cols = 0;
  std::int64_t first_row = 0, row_step = 1, first_col = 0;

  std::string to_string() const;
};

/// A tensor of the group, whether this rank needs it or not.
struct PlannedTensor {
  std::string name;
  ParamRole role = ParamRole::kWeight;
  Shape shape;             ///< in elements; accepted_forms says how files may write it
  bool is_needed = false;  ///< some local expert reads from it
  ExpertShard shard = ExpertShard::kW1;
  std::int64_t expert = -1;  ///< logical; -1: the tensor holds all of them
};

struct ShardPlan {
  std::int64_t hidden_size = 0;
  std::int64_t local_intermediate = 0;  ///< logical rows of w1 on this rank
  std::vector<std::int32_t> local_to_logical;
  std::vector<ShardSlice> slices;  ///< by local expert, then pattern
  std::vector<PlannedTensor> tensors;

  std::string to_string() const;
};

/// Shapes that tensors really have, for layouts that exist both ways round; returns an empty shape
/// for a tensor that is not there.
using ShapeLookup = std::function<Shape(const std::string&)>;

/// @throws Error(kInvalidArgument, kUnsupported) as check_request does: the cut does not go evenly,
///         or would split a quantization block or group; the patterns do not make an expert.
ShardPlan make_shard_plan(const ExpertLoadRequest& request, const ShapeLookup& shapes);

}  // namespace fusedmoe
