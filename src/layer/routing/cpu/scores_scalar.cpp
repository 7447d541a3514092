// Routing arithmetic on plain C++.
#include "arch/simd/scalar.h"
#include "layer/routing/cpu/score_body.inl"

namespace fusedmoe::routing {

const ScoreOps* scalar_score_ops() {
  static constexpr ScoreOps kOps = make_score_ops<ScalarLanes>();
  return &kOps;
}

}  // namespace fusedmoe::routing
