// Tensors that the program owns: inputs read from files, outputs on their way to one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fusedmoe/checkpoint.h"
#include "fusedmoe/tensor.h"

namespace fusedmoe::cli {

struct OwnedTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;

  TensorView view() const noexcept { return {bytes.data(), dtype, shape, 0}; }
  MutableTensorView view() noexcept { return {bytes.data(), dtype, shape, 0}; }
  float* floats() noexcept { return reinterpret_cast<float*>(bytes.data()); }
  const float* floats() const noexcept { return reinterpret_cast<const float*>(bytes.data()); }
};

/// Zeros. @throws Error(kInvalidArgument) for a negative dim.
OwnedTensor make_tensor(DType dtype, const Shape& shape);

/// A copy of a tensor in `dtype`; both are F32, BF16 or F16.
OwnedTensor converted(TensorView from, DType dtype);

/// A copy of a tensor of a file, bytes unchanged.
/// @throws Error(kNotFound) listing the tensors of the file when there is none of that name.
OwnedTensor read_tensor(const Checkpoint& file, const std::string& name);

}  // namespace fusedmoe::cli
