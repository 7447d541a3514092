#include "arch/lane_results.inl"
#include "arch/simd/avx512.h"

namespace fusedmoe::test {

void lane_results_avx512(const float* x, std::int64_t count, float* const* out) {
  lane_results<Avx512Lanes>(x, count, out);
}

}  // namespace fusedmoe::test
