// Eight lanes of AVX2 with FMA and F16C. Include only in files compiled with these flags.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace fusedmoe {

struct Avx2Lanes {
  using F = __m256;
  using I = __m256i;
  using M = __m256;
  static constexpr int kLanes = 8;
  /// 16 registers: 12 sums, two widened vectors of weights, one broadcast.
  static constexpr int kSumRegisters = 12;
  static constexpr int kMaxRows = 6;

  static F set1(float v) { return _mm256_set1_ps(v); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F sqrt(F a) { return _mm256_sqrt_ps(a); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  /// a < b ? a : b
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  /// a > b ? a : b
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F round_to_int(F a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static I to_int(F a) { return _mm256_cvtps_epi32(a); }
  static F from_int(I a) { return _mm256_cvtepi32_ps(a); }
  static I bits(F a) { return _mm256_castps_si256(a); }
  static F from_bits(I a) { return _mm256_castsi256_ps(a); }
  static I set1_int(std::int32_t v) { return _mm256_set1_epi32(v); }
  static I add_int(I a, I b) { return _mm256_add_epi32(a, b); }
  static I sub_int(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I and_int(I a, I b) { return _mm256_and_si256(a, b); }
  static I or_int(I a, I b) { return _mm256_or_si256(a, b); }
  static I xor_int(I a, I b) { return _mm256_xor_si256(a, b); }
  template <int kBits>
  static I shift_left(I a) {
    return _mm256_slli_epi32(a, kBits);
  }
  template <int kBits>
  static I shift_right(I a) {  // logical
    return _mm256_srli_epi32(a, kBits);
  }
  template <int kBits>
  static I shift_right_arithmetic(I a) {
    return _mm256_srai_epi32(a, kBits);
  }
  static M less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static M is_nan(F a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
  static F select(M mask, F yes, F no) { return _mm256_blendv_ps(no, yes, mask); }

  /// kLanes pairs of neighboring bf16: the even and the odd elements, widened.
  static void load_bf16_pairs(const std::byte* p, F& even, F& odd) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
    odd = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)));
  }
  static F load_bf16(const std::byte* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static F load_f16(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void store_bf16(std::byte* p, F v) {
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(round_bf16(v)), 16);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
  }
  static void store_f16(std::byte* p, F v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static F round_bf16(F v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i chosen = _mm256_castps_si256(
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), is_nan(v)));
    return _mm256_castsi256_ps(_mm256_and_si256(chosen, _mm256_set1_epi32(-65536)));
  }
  static F round_f16(F v) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

}  // namespace fusedmoe
