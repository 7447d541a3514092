#include "arch/lane_math.h"
#include "arch/lane_results.h"

namespace fusedmoe::test {
namespace {

template <class S>
void lane_results(const float* x, std::int64_t count, float* const* out) {
  for (std::int64_t i = 0; i < count; i += S::kLanes) {
    const auto v = S::load(x + i);
    S::store(out[0] + i, exp_f32<S>(v));
    S::store(out[1] + i, sigmoid_f32<S>(v));
    S::store(out[2] + i, silu_f32<S>(v));
    S::store(out[3] + i, gelu_tanh_f32<S>(v));
    S::store(out[4] + i, gelu_erf_f32<S>(v));
    S::store(out[5] + i, softplus_f32<S>(v));
    S::store(out[6] + i, sqrt_softplus_f32<S>(v));
    S::store(out[7] + i, tanh_f32<S>(v));
    S::store(out[8] + i, log1p_unit_f32<S>(v));
    S::store(out[9] + i, log_f32<S>(v));
  }
}

}  // namespace
}  // namespace fusedmoe::test
