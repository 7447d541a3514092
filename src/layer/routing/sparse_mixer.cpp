// The sparse mixer in evaluation mode: two arg-maxes, each weighed by a softmax over the experts
// that nearly tie with it.
//
// Source     Phi-3.5-MoE model card and modeling code (Microsoft); SparseMixer, arXiv 2310.00811
#include <cmath>
#include <limits>

#include "layer/routing/row_router.h"

namespace fusedmoe::routing {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

std::int32_t first_of_max(const float* x, std::int64_t count, std::int32_t except) {
  std::int32_t best = except == 0 ? 1 : 0;
  for (std::int32_t e = best + 1; e < count; ++e) {
    if (e != except && x[e] > x[best]) best = e;
  }
  return best;
}

}  // namespace

// Weight of `best`, the arg-max of x: one over the sum of e^(x - x[best]) over the experts whose
// distance is at most 2 epsilon of max(|x|, x[best]).
float RowRouter::sparse_mixer_weight(const float* x, std::int32_t best) {
  const float max = x[best];
  if (max == kMinusInfinity) return 0.0F;
  for (std::int64_t e = 0; e < padded_; ++e) {
    const float magnitude = std::fabs(x[e]);
    const float scale = magnitude > max ? magnitude : max;
    const bool is_far =
        x[e] == kMinusInfinity || (max - x[e]) / scale > 2.0F * config_.sparse_mixer_epsilon;
    s_.keys[e] = is_far ? kMinusInfinity : x[e];
  }
  return 1.0F / ops_.softmax_terms(s_.keys, max, s_.scores, padded_);
}

void RowRouter::select_sparse_mixer(std::int32_t* ids) {
  ids[0] = first_of_max(s_.logits, config_.num_experts, -1);
  s_.weights[0] = sparse_mixer_weight(s_.logits, ids[0]);
  ids[1] = first_of_max(s_.logits, config_.num_experts, ids[0]);
  s_.logits[ids[0]] = kMinusInfinity;
  s_.weights[1] = sparse_mixer_weight(s_.logits, ids[1]);
}

}  // namespace fusedmoe::routing
