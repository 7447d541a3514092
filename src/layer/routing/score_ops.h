// The per-row arithmetic of routing that is worth a vector unit. Every table gives the same bits.
#pragma once

#include <cstdint>

namespace fusedmoe::routing {

/// Rows handed to these operations are padded with -infinity to a multiple of this, so that no
/// operation has a tail; it is also the number of partial sums of the softmax denominator.
constexpr std::int64_t kRowUnit = 32;

constexpr std::int64_t padded_size(std::int64_t count) noexcept {
  return (count + kRowUnit - 1) / kRowUnit * kRowUnit;
}

/// `count` is a multiple of kRowUnit everywhere; in and out may be the same memory.
struct ScoreOps {
  /// NaN becomes -infinity, +infinity the largest finite value, -0 becomes +0.
  void (*clean)(float* x, std::int64_t count);
  /// x becomes cap * tanh(x / cap); -infinity stays.
  void (*soft_cap)(float* x, float cap, std::int64_t count);
  float (*row_max)(const float* x, std::int64_t count);
  /// out[e] = e^(x[e] - max); returns the sum: 32 partial sums (e into partial e mod 32,
  /// ascending), joined by adding partner xor 16, 8, 4, 2, 1.
  float (*softmax_terms)(const float* x, float max, float* out, std::int64_t count);
  void (*divide)(float* x, float by, std::int64_t count);
  void (*sigmoid)(const float* x, float* out, std::int64_t count);
  void (*sqrt_softplus)(const float* x, float* out, std::int64_t count);
  /// key[e] = score[e] + bias[e]; -infinity where the logit x[e] is. `bias` has `num_experts`
  /// elements, the padding gets -infinity.
  void (*biased_keys)(const float* x, const float* score, const float* bias, float* key,
                      std::int64_t num_experts, std::int64_t count);
};

/// The best table that this machine can run.
const ScoreOps& best_score_ops();

/// nullptr when this build has none (instruction set absent).
const ScoreOps* scalar_score_ops();
const ScoreOps* avx2_score_ops();
const ScoreOps* avx512_score_ops();
const ScoreOps* neon_score_ops();

}  // namespace fusedmoe::routing
