#include "layer/routing/score_ops.h"

#include "arch/cpu_features.h"

namespace fusedmoe::routing {
namespace {

struct Candidate {
  Isa isa;
  const ScoreOps* (*ops)();
};

constexpr Candidate kCandidates[] = {{Isa::kAvx512, avx512_score_ops},
                                     {Isa::kAvx2, avx2_score_ops},
                                     {Isa::kNeon, neon_score_ops},
                                     {Isa::kBaseline, scalar_score_ops}};

const ScoreOps& choose() {
  for (const Candidate& c : kCandidates) {
    const ScoreOps* ops = c.ops();
    if (ops != nullptr && missing_isa_reason(c.isa).empty()) return *ops;
  }
  return *scalar_score_ops();
}

}  // namespace

const ScoreOps& best_score_ops() {
  static const ScoreOps& best = choose();
  return best;
}

}  // namespace fusedmoe::routing
