// Sixteen lanes of AVX-512 (F, BW, DQ, VL). Include only in files compiled with these flags.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace fusedmoe {

struct Avx512Lanes {
  using F = __m512;
  using I = __m512i;
  using M = __mmask16;
  static constexpr int kLanes = 16;
  /// 32 registers: 24 sums leave room for two widened vectors of weights in flight.
  static constexpr int kSumRegisters = 24;
  static constexpr int kMaxRows = 12;

  static F set1(float v) { return _mm512_set1_ps(v); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F sqrt(F a) { return _mm512_sqrt_ps(a); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  /// a < b ? a : b
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  /// a > b ? a : b
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F round_to_int(F a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static I to_int(F a) { return _mm512_cvtps_epi32(a); }
  static F from_int(I a) { return _mm512_cvtepi32_ps(a); }
  static I bits(F a) { return _mm512_castps_si512(a); }
  static F from_bits(I a) { return _mm512_castsi512_ps(a); }
  static I set1_int(std::int32_t v) { return _mm512_set1_epi32(v); }
  static I add_int(I a, I b) { return _mm512_add_epi32(a, b); }
  static I sub_int(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I and_int(I a, I b) { return _mm512_and_si512(a, b); }
  static I or_int(I a, I b) { return _mm512_or_si512(a, b); }
  static I xor_int(I a, I b) { return _mm512_xor_si512(a, b); }
  template <int kBits>
  static I shift_left(I a) {
    return _mm512_slli_epi32(a, kBits);
  }
  template <int kBits>
  static I shift_right(I a) {  // logical
    return _mm512_srli_epi32(a, kBits);
  }
  template <int kBits>
  static I shift_right_arithmetic(I a) {
    return _mm512_srai_epi32(a, kBits);
  }
  static M less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static M is_nan(F a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
  static F select(M mask, F yes, F no) { return _mm512_mask_blend_ps(mask, no, yes); }

  /// kLanes pairs of neighboring bf16: the even and the odd elements, widened.
  static void load_bf16_pairs(const std::byte* p, F& even, F& odd) {
    const __m512i pairs = _mm512_loadu_si512(p);
    even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
  }
  static F load_bf16(const std::byte* p) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static F load_f16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void store_bf16(std::byte* p, F v) {
    const __m512i rounded = _mm512_srli_epi32(_mm512_castps_si512(round_bf16(v)), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(rounded));
  }
  static void store_f16(std::byte* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  /// Nearest even; vcvtneps2bf16 is not used because it flushes subnormals.
  static F round_bf16(F v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    rounded = _mm512_mask_or_epi32(rounded, is_nan(v), bits, _mm512_set1_epi32(0x400000));
    return _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(-65536)));
  }
  /// Lanes that are exact in bf16, narrowed: eight words of two neighboring numbers.
  static __m256i narrow_exact_bf16(F v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i even = _mm512_and_si512(_mm512_srli_epi64(bits, 16), _mm512_set1_epi64(0xFFFF));
    const __m512i odd =
        _mm512_and_si512(_mm512_srli_epi64(bits, 32), _mm512_set1_epi64(0xFFFF0000));
    return _mm512_cvtepi64_epi32(_mm512_or_si512(even, odd));
  }
  static F round_f16(F v) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

}  // namespace fusedmoe
