// Four lanes of NEON on aarch64.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fusedmoe {

struct NeonLanes {
  using F = float32x4_t;
  using I = int32x4_t;
  using M = uint32x4_t;
  static constexpr int kLanes = 4;
  /// 32 registers: 24 sums, four widened vectors of weights, one broadcast.
  static constexpr int kSumRegisters = 24;
  static constexpr int kMaxRows = 6;

  static F set1(float v) { return vdupq_n_f32(v); }
  static F load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, F v) { vst1q_f32(p, v); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  static F sqrt(F a) { return vsqrtq_f32(a); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  /// a < b ? a : b
  static F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  /// a > b ? a : b
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static F round_to_int(F a) { return vrndnq_f32(a); }
  static I to_int(F a) { return vcvtnq_s32_f32(a); }
  static F from_int(I a) { return vcvtq_f32_s32(a); }
  static I bits(F a) { return vreinterpretq_s32_f32(a); }
  static F from_bits(I a) { return vreinterpretq_f32_s32(a); }
  static I set1_int(std::int32_t v) { return vdupq_n_s32(v); }
  static I add_int(I a, I b) { return vaddq_s32(a, b); }
  static I sub_int(I a, I b) { return vsubq_s32(a, b); }
  static I and_int(I a, I b) { return vandq_s32(a, b); }
  static I or_int(I a, I b) { return vorrq_s32(a, b); }
  static I xor_int(I a, I b) { return veorq_s32(a, b); }
  template <int kBits>
  static I shift_left(I a) {
    return vshlq_n_s32(a, kBits);
  }
  template <int kBits>
  static I shift_right(I a) {  // logical
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), kBits));
  }
  template <int kBits>
  static I shift_right_arithmetic(I a) {
    return vshrq_n_s32(a, kBits);
  }
  static M less(F a, F b) { return vcltq_f32(a, b); }
  static M is_nan(F a) { return vmvnq_u32(vceqq_f32(a, a)); }
  static F select(M mask, F yes, F no) { return vbslq_f32(mask, yes, no); }

  static int32x4_t load_words(const std::byte* p) {
    return vreinterpretq_s32_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(p)));
  }
  /// kLanes pairs of neighboring bf16: the even and the odd elements, widened.
  static void load_bf16_pairs(const std::byte* p, F& even, F& odd) {
    const int32x4_t pairs = load_words(p);
    even = vreinterpretq_f32_s32(vshlq_n_s32(pairs, 16));
    odd = vreinterpretq_f32_s32(vandq_s32(pairs, vdupq_n_s32(-65536)));
  }
  static uint16x4_t load_halves(const std::byte* p) {
    return vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(p)));
  }
  static F load_bf16(const std::byte* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(load_halves(p), 16));
  }
  static F load_f16(const std::byte* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(load_halves(p)));
  }
  static void store_bf16(std::byte* p, F v) {
    const uint16x4_t high = vshrn_n_u32(vreinterpretq_u32_f32(round_bf16(v)), 16);
    vst1_u8(reinterpret_cast<std::uint8_t*>(p), vreinterpret_u8_u16(high));
  }
  static void store_f16(std::byte* p, F v) {
    vst1_u8(reinterpret_cast<std::uint8_t*>(p), vreinterpret_u8_f16(vcvt_f16_f32(v)));
  }
  static F round_bf16(F v) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    const uint32x4_t chosen = vbslq_u32(is_nan(v), quiet, rounded);
    return vreinterpretq_f32_u32(vandq_u32(chosen, vdupq_n_u32(0xFFFF0000U)));
  }
  static F round_f16(F v) { return vcvt_f32_f16(vcvt_f16_f32(v)); }
};

}  // namespace fusedmoe
