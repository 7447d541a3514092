// All functions of the lane math, applied to an array on one lane type.
#pragma once

#include <cstdint>

namespace fusedmoe::test {

constexpr int kNumLaneFunctions = 10;
constexpr std::int64_t kLaneUnit = 16;

/// out[f][i] = function f of x[i]; `count` is a multiple of kLaneUnit.
void lane_results_avx2(const float* x, std::int64_t count, float* const* out);
void lane_results_avx512(const float* x, std::int64_t count, float* const* out);

}  // namespace fusedmoe::test
