// fp32 multiply-add peak of x86-64 processors.
#include <immintrin.h>

#include "machine_limits.h"

namespace fusedmoe::cli {
namespace {

constexpr int kSums = 12;  // latency 4 x 2 units = 8, and room

// A factor below 1 and a small addend: the sums stay ordinary numbers for ever.
constexpr float kFactor = 0.999F;
constexpr float kAddend = 0.001F;

__attribute__((target("avx512f"))) double spin_avx512(std::int64_t iterations, float* sink) {
  __m512 sums[kSums];
  const __m512 factor = _mm512_set1_ps(kFactor);
  const __m512 addend = _mm512_set1_ps(kAddend);
  for (auto& sum : sums) sum = addend;
  for (std::int64_t i = 0; i < iterations; i += kSums) {
#pragma GCC unroll 12
    for (int s = 0; s < kSums; ++s) sums[s] = _mm512_fmadd_ps(sums[s], factor, addend);
  }
  __m512 total = _mm512_setzero_ps();
  for (const auto& sum : sums) total = _mm512_add_ps(total, sum);
  *sink = _mm512_cvtss_f32(total);
  return static_cast<double>((iterations + kSums - 1) / kSums * kSums) * 16 * 2;
}

__attribute__((target("avx2,fma"))) double spin_avx2(std::int64_t iterations, float* sink) {
  __m256 sums[kSums];
  const __m256 factor = _mm256_set1_ps(kFactor);
  const __m256 addend = _mm256_set1_ps(kAddend);
  for (auto& sum : sums) sum = addend;
  for (std::int64_t i = 0; i < iterations; i += kSums) {
#pragma GCC unroll 12
    for (int s = 0; s < kSums; ++s) sums[s] = _mm256_fmadd_ps(sums[s], factor, addend);
  }
  __m256 total = _mm256_setzero_ps();
  for (const auto& sum : sums) total = _mm256_add_ps(total, sum);
  *sink = _mm256_cvtss_f32(total);
  return static_cast<double>((iterations + kSums - 1) / kSums * kSums) * 8 * 2;
}

double spin_sse2(std::int64_t iterations, float* sink) {
  __m128 sums[kSums];
  const __m128 factor = _mm_set1_ps(kFactor);
  const __m128 addend = _mm_set1_ps(kAddend);
  for (auto& sum : sums) sum = addend;
  for (std::int64_t i = 0; i < iterations; i += kSums) {
#pragma GCC unroll 12
    for (int s = 0; s < kSums; ++s) sums[s] = _mm_add_ps(_mm_mul_ps(sums[s], factor), addend);
  }
  __m128 total = _mm_setzero_ps();
  for (const auto& sum : sums) total = _mm_add_ps(total, sum);
  *sink = _mm_cvtss_f32(total);
  return static_cast<double>((iterations + kSums - 1) / kSums * kSums) * 4 * 2;
}

}  // namespace

double spin_fma(std::int64_t iterations, float* sink) {
  if (__builtin_cpu_supports("avx512f")) return spin_avx512(iterations, sink);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return spin_avx2(iterations, sink);
  }
  return spin_sse2(iterations, sink);
}

}  // namespace fusedmoe::cli
