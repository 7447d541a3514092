// One lane of plain C++: what the wider lane types must agree with, bit for bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/half.h"

namespace fusedmoe {

struct ScalarLanes {
  using F = float;
  using I = std::int32_t;
  using M = bool;
  static constexpr int kLanes = 1;
  static constexpr int kSumRegisters = 16;
  static constexpr int kMaxRows = 4;

  static F set1(float v) { return v; }
  static F load(const float* p) { return *p; }
  static void store(float* p, F v) { *p = v; }
  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  static F div(F a, F b) { return a / b; }
  static F sqrt(F a) { return std::sqrt(a); }
  static F fma(F a, F b, F c) { return std::fma(a, b, c); }
  /// The second operand when either is NaN, as x86 does.
  static F min(F a, F b) { return a < b ? a : b; }
  static F max(F a, F b) { return a > b ? a : b; }
  static F round_to_int(F a) { return std::nearbyint(a); }
  static I to_int(F a) {
    // NaN and out-of-range values as x86 converts them; a cast would be undefined.
    if (!(a >= -2147483648.0F && a < 2147483648.0F)) return std::numeric_limits<I>::min();
    return static_cast<I>(std::nearbyint(a));
  }
  static F from_int(I a) { return static_cast<F>(a); }
  static I bits(F a) { return std::bit_cast<I>(a); }
  static F from_bits(I a) { return std::bit_cast<F>(a); }
  static I set1_int(std::int32_t v) { return v; }
  static I add_int(I a, I b) { return wrap(word(a) + word(b)); }
  static I sub_int(I a, I b) { return wrap(word(a) - word(b)); }
  static I and_int(I a, I b) { return a & b; }
  static I or_int(I a, I b) { return a | b; }
  static I xor_int(I a, I b) { return a ^ b; }
  template <int kBits>
  static I shift_left(I a) {
    return wrap(word(a) << kBits);
  }
  template <int kBits>
  static I shift_right(I a) {  // logical
    return wrap(word(a) >> kBits);
  }
  template <int kBits>
  static I shift_right_arithmetic(I a) {
    return a >> kBits;
  }
  static M less(F a, F b) { return a < b; }
  static M is_nan(F a) { return a != a; }
  static F select(M mask, F yes, F no) { return mask ? yes : no; }

  static void load_bf16_pairs(const std::byte* p, F& even, F& odd) {
    even = load_as_f32(p, DType::kBF16, 0);
    odd = load_as_f32(p, DType::kBF16, 1);
  }
  static F load_bf16(const std::byte* p) { return load_as_f32(p, DType::kBF16, 0); }
  static F load_f16(const std::byte* p) { return load_as_f32(p, DType::kF16, 0); }
  static void store_bf16(std::byte* p, F v) { store_from_f32(p, DType::kBF16, 0, v); }
  static void store_f16(std::byte* p, F v) { store_from_f32(p, DType::kF16, 0, v); }
  static F round_bf16(F v) { return round_to(v, DType::kBF16); }
  static F round_f16(F v) { return round_to(v, DType::kF16); }

 private:
  static std::uint32_t word(I a) { return static_cast<std::uint32_t>(a); }
  static I wrap(std::uint32_t a) { return static_cast<I>(a); }
};

}  // namespace fusedmoe
