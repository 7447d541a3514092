// Arithmetic cpu_f32 on NEON: weights widened in registers, fp32 fused multiply-add.
#include "arch/simd/neon.h"
#include "layer/experts/cpu/ops_tables.h"
#include "layer/experts/cpu/panel_body.inl"

namespace fusedmoe::cpu {

const Ops* neon_f32_ops(DType weight_dtype) {
  static constexpr Ops kBf16 = make_ops<NeonLanes, WidenedF32<NeonLanes, Bf16Panel>>();
  static constexpr Ops kF16 = make_ops<NeonLanes, WidenedF32<NeonLanes, F16Panel>>();
  static constexpr Ops kF32 = make_ops<NeonLanes, WidenedF32<NeonLanes, F32Panel>>();
  return weight_dtype == DType::kBF16 ? &kBf16 : weight_dtype == DType::kF16 ? &kF16 : &kF32;
}

}  // namespace fusedmoe::cpu
