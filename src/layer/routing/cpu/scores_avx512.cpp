// Routing arithmetic on AVX-512.
#include "arch/simd/avx512.h"
#include "layer/routing/cpu/score_body.inl"

namespace fusedmoe::routing {

const ScoreOps* avx512_score_ops() {
  static constexpr ScoreOps kOps = make_score_ops<Avx512Lanes>();
  return &kOps;
}

}  // namespace fusedmoe::routing
