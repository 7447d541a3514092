// Groups of experts in files that a test writes, and what the loader hands out for them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/handmade_file.h"
#include "weights/disk_layout.h"
#include "weights/load.h"

namespace fusedmoe::test {

/// A tensor that owns its bytes.
struct MadeTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;
};

/// A tensor of BF16, F16 or F32 numbers.
MadeTensor made_floats(const std::string& name, const Shape& shape,
                       const std::vector<float>& numbers, DType dtype = DType::kF32);
/// A tensor of one-byte codes.
MadeTensor made_codes(const std::string& name, const Shape& shape,
                      const std::vector<std::uint8_t>& codes, DType dtype);

/// A group of experts: what its file holds and what the loader is asked for. A value: tests break a
/// copy of it.
struct ExpertGroup {
  ExpertSizes sizes;
  bool is_gated = true;
  std::vector<ExpertTensorPattern> patterns;
  QuantAnnouncement quant;
  DType weight_dtype = DType::kF32;
  ParallelLayout parallel;
  std::vector<MadeTensor> tensors;
  int num_files = 1;  ///< tensors are dealt to the files in turn

  /// @throws std::runtime_error when there is none.
  MadeTensor& tensor(const std::string& name);
  void remove(const std::string& name);
  Checkpoint write(const testing::TempFolder& folder) const;
};

/// F32 experts of known numbers, one tensor an expert and projection unless `layout` says more.
ExpertGroup plain_group(const DiskLayout& layout, const ExpertSizes& sizes,
                        const ParallelLayout& parallel = {},
                        const std::string& modules = "block.experts.");

/// What one local expert got, element by element in row order.
struct LoadedExpert {
  std::vector<float> w1, w3, w2, b1, b3, b2;
  friend bool operator==(const LoadedExpert&, const LoadedExpert&) = default;
};

struct LoadedGroup {
  std::map<std::int64_t, LoadedExpert> experts;  ///< by local number
  LoadReport report;
};

struct LoadHooks {
  LoadOptions options;
  /// Called in place of keeping the tensors.
  std::function<void(std::int64_t, const ExpertTensors&)> sink;
};

/// Writes the group to a folder of its own, loads it and closes the ledger.
/// @throws what the loader and the ledger throw.
LoadedGroup load_group(const ExpertGroup& group, const LoadHooks& hooks = {});

/// The expert of known numbers for a rank, from their definition.
LoadedExpert expected_expert(const ExpertGroup& group, std::int64_t local_expert);

}  // namespace fusedmoe::test
