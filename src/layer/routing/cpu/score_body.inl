// The operations of score_ops.h over a lane type; included by one file for each instruction set.
//
// Mapping    lane l of vector v of a unit -> expert 32 u + v kLanes + l, on every lane type
// Accuracy   arch/lane_math.h; rounding is fixed, so the tables agree bit for bit
#include <limits>

#include "arch/lane_math.h"
#include "layer/routing/score_ops.h"

namespace fusedmoe::routing {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

template <class S>
void clean(float* x, std::int64_t count) {
  const auto lowest = S::set1(kMinusInfinity);
  for (std::int64_t e = 0; e < count; e += S::kLanes) {
    const auto v = S::load(x + e);
    const auto finite = S::min(S::set1(std::numeric_limits<float>::max()), v);
    S::store(x + e, S::add(S::select(S::is_nan(v), lowest, finite), S::set1(0.0F)));
  }
}

template <class S>
void soft_cap(float* x, float cap, std::int64_t count) {
  const auto c = S::set1(cap);
  for (std::int64_t e = 0; e < count; e += S::kLanes) {
    const auto v = S::load(x + e);
    const auto capped = S::mul(c, tanh_f32<S>(S::div(v, c)));
    S::store(x + e, S::select(S::less(S::set1(kMinusInfinity), v), capped, v));
  }
}

template <class S>
float row_max(const float* x, std::int64_t count) {
  auto best = S::load(x);
  for (std::int64_t e = S::kLanes; e < count; e += S::kLanes) best = S::max(best, S::load(x + e));
  float lanes[S::kLanes];
  S::store(lanes, best);
  float result = lanes[0];
  for (int l = 1; l < S::kLanes; ++l) result = lanes[l] > result ? lanes[l] : result;
  return result;
}

template <class S>
float softmax_terms(const float* x, float max, float* out, std::int64_t count) {
  constexpr int kVectors = static_cast<int>(kRowUnit) / S::kLanes;
  typename S::F sums[kVectors];
  for (auto& sum : sums) sum = S::set1(0.0F);
  for (std::int64_t u = 0; u < count; u += kRowUnit) {
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t e = u + v * S::kLanes;
      const auto term = exp_f32<S>(S::sub(S::load(x + e), S::set1(max)));
      S::store(out + e, term);
      sums[v] = S::add(sums[v], term);
    }
  }
  float partial[kRowUnit];
  for (int v = 0; v < kVectors; ++v) S::store(partial + v * S::kLanes, sums[v]);
  for (std::int64_t half = kRowUnit / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) partial[l] = partial[l] + partial[l + half];
  }
  return partial[0];
}

template <class S>
void divide(float* x, float by, std::int64_t count) {
  for (std::int64_t e = 0; e < count; e += S::kLanes) {
    S::store(x + e, S::div(S::load(x + e), S::set1(by)));
  }
}

template <class S>
void sigmoid(const float* x, float* out, std::int64_t count) {
  for (std::int64_t e = 0; e < count; e += S::kLanes) {
    S::store(out + e, sigmoid_f32<S>(S::load(x + e)));
  }
}

template <class S>
void sqrt_softplus(const float* x, float* out, std::int64_t count) {
  for (std::int64_t e = 0; e < count; e += S::kLanes) {
    S::store(out + e, sqrt_softplus_f32<S>(S::load(x + e)));
  }
}

template <class S>
void biased_keys(const float* x, const float* score, const float* bias, float* key,
                 std::int64_t num_experts, std::int64_t count) {
  const auto lowest = S::set1(kMinusInfinity);
  std::int64_t e = 0;
  for (; e + S::kLanes <= num_experts; e += S::kLanes) {
    const auto sum = S::add(S::add(S::load(score + e), S::load(bias + e)), S::set1(0.0F));
    S::store(key + e, S::select(S::less(lowest, S::load(x + e)), sum, lowest));
  }
  for (; e < count; ++e) {
    const bool has_key = e < num_experts && x[e] > kMinusInfinity;
    key[e] = has_key ? score[e] + bias[e] + 0.0F : kMinusInfinity;
  }
}

template <class S>
constexpr ScoreOps make_score_ops() {
  return {clean<S>,  soft_cap<S>, row_max<S>,       softmax_terms<S>,
          divide<S>, sigmoid<S>,  sqrt_softplus<S>, biased_keys<S>};
}

}  // namespace
}  // namespace fusedmoe::routing
