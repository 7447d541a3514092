// Turns one slice of a quantized expert matrix into plain numbers.
#pragma once

#include <string>

#include "fusedmoe/quant.h"
#include "fusedmoe/tensor.h"
#include "weights/shard_plan.h"

namespace fusedmoe {

/// The tensors of one quantized matrix.
struct QuantizedMatrix {
  TensorView codes;
  TensorView scales;
};

/// Writes `slice` [rows, cols] as `out_dtype`, row-major, contiguous.
///
/// fp8: code * scale in one f32 product. mxfp4: value * 2^(scale - 127), exact in bf16.
/// @return an empty string, or what is wrong with the data (a NaN code, a scale that is not a
/// finite
///         positive number), with coordinates.
std::string dequantize(const QuantScheme& scheme, const QuantizedMatrix& matrix,
                       const ShardSlice& slice, DType out_dtype, std::byte* out);

}  // namespace fusedmoe
