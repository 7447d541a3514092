// Routing arithmetic on NEON.
#include "arch/simd/neon.h"
#include "layer/routing/cpu/score_body.inl"

namespace fusedmoe::routing {

const ScoreOps* neon_score_ops() {
  static constexpr ScoreOps kOps = make_score_ops<NeonLanes>();
  return &kOps;
}

}  // namespace fusedmoe::routing
