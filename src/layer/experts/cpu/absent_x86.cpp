// Stands for the x86 kernels on other processors: the tables are absent.
#include "layer/experts/cpu/ops_tables.h"

namespace fusedmoe::cpu {

const Ops* avx2_f32_ops(DType) { return nullptr; }
const Ops* avx512_f32_ops(DType) { return nullptr; }
const Ops* avx512_bf16_ops() { return nullptr; }
const Ops* amx_bf16_ops() { return nullptr; }

}  // namespace fusedmoe::cpu
