// The tables of operations that this build has.
#pragma once

#include "fusedmoe/dtype.h"
#include "layer/experts/cpu/ops.h"

namespace fusedmoe::cpu {

/// The operations of arithmetic cpu_f32 on the best instruction set here: all of them give the same
/// bits, so the router and the shared gate use whichever it is.
const Ops& best_f32_ops(DType weight_dtype);

/// One table per weight format, or nullptr when this build has none (instruction set absent).
/// weight_dtype: BF16, F16 or F32.
const Ops* scalar_f32_ops(DType weight_dtype);
const Ops* avx2_f32_ops(DType weight_dtype);
const Ops* avx512_f32_ops(DType weight_dtype);
const Ops* neon_f32_ops(DType weight_dtype);
const Ops* avx512_bf16_ops();
const Ops* amx_bf16_ops();

}  // namespace fusedmoe::cpu
