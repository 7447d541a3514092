// Stands for the NEON kernels on other processors: the tables are absent.
#include "layer/experts/cpu/ops_tables.h"

namespace fusedmoe::cpu {

const Ops* neon_f32_ops(DType) { return nullptr; }

}  // namespace fusedmoe::cpu
