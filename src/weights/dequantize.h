// Turns one slice of a quantized expert matrix into plain numbers.
#pragma once

#include <string>

#include "fusedmoe/quant.h"
#include "fusedmoe/tensor.h"
#include "weights/shard_plan.h"

namespace fusedmoe {

/// The tensors of one quantized matrix.
struct QuantizedMatrix {
  TensorView codes;   ///< 8-bit codes, or 4-bit ones two to a byte along the stored columns
  TensorView scales;  ///< F32, BF16, F16 or E8M0 (also as U8)
};

/// Writes `slice` [rows, cols] as `out_dtype`, row-major, contiguous.
///
/// fp8: code * scale in one f32 product. mxfp4: value * 2^(scale - 127), exact in bf16.
/// A scale of zero is legal where all codes that it scales are zero.
/// @param num_zero_scales when given, receives the number of such scales in the slice.
/// @return an empty string, or what is wrong with the data, with its place in the stored matrix: a
///         code that is NaN or infinite; a scale that is NaN, infinite, negative, or zero over
///         other numbers; a product that `out_dtype` cannot hold. `out` is garbage then.
std::string dequantize(const QuantScheme& scheme, const QuantizedMatrix& matrix,
                       const ShardSlice& slice, DType out_dtype, std::byte* out,
                       std::int64_t* num_zero_scales = nullptr);

}  // namespace fusedmoe
