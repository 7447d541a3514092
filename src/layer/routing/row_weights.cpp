// From raw weights to final ones: renormalize, factor, shared columns.
#include <cmath>
#include <limits>

#include "arch/lane_math.h"
#include "arch/simd/scalar.h"
#include "layer/routing/row_router.h"

namespace fusedmoe::routing {
namespace {

float power(float base, float exponent) {  // base in (0, 1] or a sum of such
  return exp_f32<ScalarLanes>(exponent * log_f32<ScalarLanes>(base));
}

// (sum |w|^p)^(1/p), scaled by the largest |w| so that nothing over- or underflows.
float p_norm(const float* w, std::int64_t count, float p) {
  float largest = 0.0F;
  float sum = 0.0F;
  for (std::int64_t j = 0; j < count; ++j) {
    const float magnitude = std::fabs(w[j]);
    largest = magnitude > largest ? magnitude : largest;
    sum += magnitude;
  }
  if (p == 1.0F || largest == 0.0F) return sum;
  float powers = 0.0F;
  for (std::int64_t j = 0; j < count; ++j) {
    const float ratio = std::fabs(w[j]) / largest;
    if (ratio >= std::numeric_limits<float>::min()) powers += power(ratio, p);
  }
  return largest * power(powers, 1.0F / p);
}

// SplitMix64 (Steele, Lea, Flood, 2014): the generator of the compat mode's shared ids.
std::uint64_t split_mix(std::uint64_t state) {
  state += 0x9E3779B97F4A7C15U;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9U;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBU;
  return state ^ (state >> 31);
}

}  // namespace

float RowRouter::divisor() const {
  if (config_.renormalize_form == RenormalizeForm::kPNorm) {
    return p_norm(s_.weights, num_routed_, config_.renormalize_p);
  }
  float sum = 0.0F;
  for (std::int64_t j = 0; j < num_routed_; ++j) sum += s_.weights[j];
  if (config_.compat == RoutingCompat::kSglang) return sum;
  const float limit = config_.renormalize_epsilon;
  if (config_.renormalize_form == RenormalizeForm::kFloor) return sum > limit ? sum : limit;
  return sum + limit;
}

void RowRouter::normalize() {
  const bool is_sglang = config_.compat == RoutingCompat::kSglang;
  const bool divides = config_.renormalize && config_.scoring != ScoringFunc::kTopKSoftmax;
  if (divides) {
    const float d = divisor();
    // Ours: weights over nothing are nothing. SGLang's reference divides and gets NaN.
    const bool is_zero = d == 0.0F && (!is_sglang || is_dead_);
    for (std::int64_t j = 0; j < num_routed_; ++j)
      s_.weights[j] = is_zero ? 0.0F : s_.weights[j] / d;
  }
  if (is_sglang && !config_.renormalize) return;
  for (std::int64_t j = 0; j < num_routed_; ++j) s_.weights[j] *= config_.routed_scaling_factor;
}

void RowRouter::append_shared(std::int32_t* ids, float* weights) const {
  const std::int64_t num_shared = config_.num_fused_shared_experts;
  std::uint64_t state = 0;  // of the row's routed ids, so that rows stay independent
  if (config_.compat == RoutingCompat::kSglang) {
    for (std::int64_t j = 0; j < num_routed_; ++j) {
      state = split_mix(state ^ static_cast<std::uint32_t>(ids[j]));
    }
  }
  for (std::int64_t i = 0; i < num_shared; ++i) {
    std::int64_t shared = i;
    if (config_.compat == RoutingCompat::kSglang) {
      state = split_mix(state);
      shared = static_cast<std::int64_t>(state % static_cast<std::uint64_t>(num_shared));
    }
    ids[num_routed_ + i] = static_cast<std::int32_t>(config_.num_experts + shared);
    weights[num_routed_ + i] = config_.fused_shared_weight;
  }
}

}  // namespace fusedmoe::routing
