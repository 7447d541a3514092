// Routing arithmetic on AVX2.
#include "arch/simd/avx2.h"
#include "layer/routing/cpu/score_body.inl"

namespace fusedmoe::routing {

const ScoreOps* avx2_score_ops() {
  static constexpr ScoreOps kOps = make_score_ops<Avx2Lanes>();
  return &kOps;
}

}  // namespace fusedmoe::routing
