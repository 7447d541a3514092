#include "arch/lane_results.inl"
#include "arch/simd/avx2.h"

namespace fusedmoe::test {

void lane_results_avx2(const float* x, std::int64_t count, float* const* out) {
  lane_results<Avx2Lanes>(x, count, out);
}

}  // namespace fusedmoe::test
