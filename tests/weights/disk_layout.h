// Experts of known numbers, laid out on disk in every way that checkpoints have.
//
// Every number of the whole model is different and says where it comes from, so that a test can
// state for each element of a rank's slice which number must be there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fusedmoe/model.h"
#include "fusedmoe/tensor.h"

namespace fusedmoe::test {

/// One way to store the experts of a layer.
struct DiskLayout {
  const char* name;
  bool is_gated = true;
  bool is_stacked = false;
  bool is_flattened = false;
  bool joins_gate_and_up = false;
  bool is_interleaved = false;
  bool is_up_first = false;
  bool transposes_inputs = false;  ///< gate and up are stored [H, I]
  bool transposes_down = false;    ///< down is stored [I, H]
  bool orientation_from_shape = false;
};
std::span<const DiskLayout> disk_layouts();
const DiskLayout& disk_layout(const std::string& name);

struct ExpertSizes {
  std::int64_t num_experts = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  ///< of the whole model
  bool has_bias = false;
};

/// The number at (row, col) of a matrix of the whole model; `shard` is w1, w3 or w2.
float weight_number(const ExpertSizes& sizes, std::int64_t expert, ExpertShard shard,
                    std::int64_t row, std::int64_t col);
/// The number at `row` of a bias; no weight has it.
float bias_number(const ExpertSizes& sizes, std::int64_t expert, ExpertShard shard,
                  std::int64_t row);

/// A tensor as it stands in the file.
struct StoredTensor {
  std::string name;
  Shape shape;
  std::vector<float> numbers;
};

/// Where the experts are, as the family table would say it.
/// @param modules prefix of the module names: "block.experts."
std::vector<ExpertTensorPattern> patterns_of(const DiskLayout& layout, bool has_bias,
                                             const std::string& modules = "block.experts.");

/// Part [first, first + count) of the intermediate size, which is all of it in an ordinary file.
struct IntermediateRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// The tensors of a file that holds `range` of all experts.
std::vector<StoredTensor> store(const DiskLayout& layout, const ExpertSizes& sizes,
                                IntermediateRange range,
                                const std::string& modules = "block.experts.");

}  // namespace fusedmoe::test
