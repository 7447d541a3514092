// One expert's tensors: views of the files where these hold the numbers as they are, else
// dequantized into a buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fusedmoe/checkpoint.h"
#include "fusedmoe/layer.h"
#include "weights/load.h"
#include "weights/shard_plan.h"

namespace fusedmoe {

/// The slices of one local expert, by what they are. Pointers into the plan.
using ExpertSlices = std::map<std::pair<ExpertShard, ParamRole>, const ShardSlice*>;

/// The buffers of one thread, used for one expert after the other.
class ExpertStage {
 public:
  ExpertStage(const Checkpoint& checkpoint, const ExpertLoadRequest& request);

  /// Bytes that a stage takes for an expert whose local intermediate size is given.
  static std::uint64_t bytes_needed(const ExpertLoadRequest& request, std::int64_t intermediate);

  /// Reads all slices; their tensors have passed the check of shapes and dtypes.
  /// @return the tensors, valid until the next call; empty where `problem` says what is wrong.
  ExpertTensors stage(const ExpertSlices& slices, std::string& problem);

  /// Scales of zero in the expert staged last.
  std::int64_t num_zero_scales() const noexcept { return num_zero_scales_; }

 private:
  MatrixView view_of(const ShardSlice& slice) const;
  MatrixView dequantized(const ShardSlice& slice, const ShardSlice& scale, std::string& problem);
  std::span<const float> read_bias(const ShardSlice& slice);
  std::string check_input_scale(const ShardSlice& slice) const;
  TensorView tensor_of(const ShardSlice& slice) const;

  const Checkpoint& checkpoint_;
  const ExpertLoadRequest& request_;
  std::vector<std::byte> matrices_;
  std::vector<float> biases_;
  std::size_t matrix_bytes_used_ = 0;
  std::size_t biases_used_ = 0;
  std::int64_t num_zero_scales_ = 0;
};

}  // namespace fusedmoe
