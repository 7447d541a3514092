// Stands for the x86 tables on other processors.
#include "layer/routing/score_ops.h"

namespace fusedmoe::routing {

const ScoreOps* avx2_score_ops() { return nullptr; }
const ScoreOps* avx512_score_ops() { return nullptr; }

}  // namespace fusedmoe::routing
