// Our own transcendental functions, written once over a lane type (arch/simd/*.h).
//
// Every lane type runs the same sequence of IEEE operations, so a value has the same bits on every
// instruction set: fma is explicit, division is division, subnormals are kept, no library is
// called. S::min and S::max give their second operand when either is NaN; operand order below lets
// NaN pass.
#pragma once

#include <cstdint>
#include <limits>

namespace fusedmoe {

/// 2^n for an integer n in [-126, 127].
template <class S>
inline typename S::F power_of_two(typename S::I n) {
  return S::from_bits(S::template shift_left<23>(S::add_int(n, S::set1_int(127))));
}

/// e^x: over to infinity above 88.72, through the subnormals to 0 below -87.3. Error < 1 ulp of
/// normal results.
template <class S>
inline typename S::F exp_f32(typename S::F x) {
  using F = typename S::F;
  const F clamped = S::min(S::set1(89.0F), S::max(S::set1(-104.5F), x));
  const F n = S::round_to_int(S::mul(clamped, S::set1(0x1.715476p+0F)));
  // r = x - n * ln 2, ln 2 in two pieces: the first product is exact.
  F r = S::fma(n, S::set1(-0x1.62e4p-1F), clamped);
  r = S::fma(n, S::set1(-0x1.7f7d1cp-20F), r);
  // Taylor series on |r| <= ln 2 / 2; the first term left out is below 6e-9.
  F p = S::set1(1.0F / 5040.0F);
  p = S::fma(p, r, S::set1(1.0F / 720.0F));
  p = S::fma(p, r, S::set1(1.0F / 120.0F));
  p = S::fma(p, r, S::set1(1.0F / 24.0F));
  p = S::fma(p, r, S::set1(1.0F / 6.0F));
  p = S::fma(p, r, S::set1(0.5F));
  p = S::fma(p, r, S::set1(1.0F));
  p = S::fma(p, r, S::set1(1.0F));
  // Two exact steps to 2^n, so that subnormal results round once and large ones reach infinity.
  const typename S::I whole = S::to_int(n);
  const typename S::I half = S::template shift_right_arithmetic<1>(whole);
  return S::mul(S::mul(p, power_of_two<S>(half)), power_of_two<S>(S::sub_int(whole, half)));
}

/// 1 / (1 + e^-x).
template <class S>
inline typename S::F sigmoid_f32(typename S::F x) {
  const typename S::F one = S::set1(1.0F);
  return S::div(one, S::add(one, exp_f32<S>(S::sub(S::set1(0.0F), x))));
}

/// x * sigmoid(x); -0 at -infinity (the limit), not the NaN of the plain formula.
template <class S>
inline typename S::F silu_f32(typename S::F x) {
  const typename S::F finite = S::max(S::set1(-0x1.fffffep+127F), x);
  return S::mul(finite, sigmoid_f32<S>(finite));
}

/// gelu, tanh form: x * sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3), since
/// (1 + tanh z) / 2 = sigmoid(2 z).
template <class S>
inline typename S::F gelu_tanh_f32(typename S::F x) {
  using F = typename S::F;
  const F finite = S::max(S::set1(-0x1p+40F), x);  // gelu(-2^40) is -0 already, the cube is finite
  const F squared = S::mul(finite, finite);
  const F inner =
      S::mul(finite, S::fma(squared, S::set1(0.0713548162726F), S::set1(1.59576912161F)));
  return S::mul(finite, sigmoid_f32<S>(inner));
}

/// erfc(z) for z >= 0. The polynomial is within 2e-7; in a gelu the rounding of z itself grows with
/// z^2: up to 256 ulp at x = -12.5 is what tests/arch allow.
template <class S>
inline typename S::F erfc_positive_f32(typename S::F z) {
  using F = typename S::F;
  const F one = S::set1(1.0F);
  const F t = S::div(one, S::fma(S::set1(0.5F), z, one));  // in (0, 1]
  const F u = S::fma(S::set1(2.0F), t, S::set1(-1.0F));
  // erfc(z) e^(z^2) / t as a polynomial in u: least squares on Chebyshev nodes, relative error
  // 2e-7.
  F p = S::set1(8.207441069895111e-05F);
  p = S::fma(p, u, S::set1(8.139491330673112e-05F));
  p = S::fma(p, u, S::set1(-0.00026012822126248147F));
  p = S::fma(p, u, S::set1(-0.00039553153325889866F));
  p = S::fma(p, u, S::set1(0.0006509347429488757F));
  p = S::fma(p, u, S::set1(0.0016113498365143654F));
  p = S::fma(p, u, S::set1(-0.00333768201992973F));
  p = S::fma(p, u, S::set1(-0.010780172555785061F));
  p = S::fma(p, u, S::set1(0.01823791907953776F));
  p = S::fma(p, u, S::set1(0.1397391800647697F));
  p = S::fma(p, u, S::set1(0.34357955099840004F));
  p = S::fma(p, u, S::set1(0.5107912910521127F));
  // e^(-z^2) with the part of z^2 that f32 drops put back.
  const F square = S::mul(z, z);
  const F rest = S::fma(z, z, S::sub(S::set1(0.0F), square));
  const F e = exp_f32<S>(S::sub(S::set1(0.0F), square));
  return S::mul(S::mul(t, p), S::fma(S::sub(S::set1(0.0F), rest), e, e));
}

/// gelu, erf form: x (1 + erf(x / sqrt 2)) / 2 = x erfc(-x / sqrt 2) / 2, without cancellation.
template <class S>
inline typename S::F gelu_erf_f32(typename S::F x) {
  using F = typename S::F;
  const F finite = S::max(S::set1(-0x1p+40F), x);  // gelu(-2^40) is -0 already
  const F scaled = S::mul(finite, S::set1(0.707106781187F));
  const F magnitude =
      S::min(S::set1(20.0F), S::from_bits(S::and_int(S::bits(scaled), S::set1_int(0x7FFFFFFF))));
  const F tail = erfc_positive_f32<S>(magnitude);  // erfc(|x| / sqrt 2)
  const F cumulative = S::select(S::less(scaled, S::set1(0.0F)), tail, S::sub(S::set1(2.0F), tail));
  return S::mul(S::mul(S::set1(0.5F), finite), cumulative);
}

/// q with atanh(s) = s (1 + q), from w = s^2 <= 1/9: the series to s^16; what is left out is below
/// 3e-10 of the result.
template <class S>
inline typename S::F atanh_series(typename S::F w) {
  using F = typename S::F;
  F p = S::set1(1.0F / 17.0F);
  p = S::fma(p, w, S::set1(1.0F / 15.0F));
  p = S::fma(p, w, S::set1(1.0F / 13.0F));
  p = S::fma(p, w, S::set1(1.0F / 11.0F));
  p = S::fma(p, w, S::set1(1.0F / 9.0F));
  p = S::fma(p, w, S::set1(1.0F / 7.0F));
  p = S::fma(p, w, S::set1(1.0F / 5.0F));
  p = S::fma(p, w, S::set1(1.0F / 3.0F));
  return S::mul(p, w);
}

/// ln(1 + y) for y in [0, 1] (all that softplus needs): 2 atanh(y / (2 + y)). Error < 3 ulp.
template <class S>
inline typename S::F log1p_unit_f32(typename S::F y) {
  using F = typename S::F;
  // 2 s = y / (1 + y / 2): no bit of a subnormal y is lost.
  const F twice = S::div(y, S::fma(y, S::set1(0.5F), S::set1(1.0F)));
  const F w = S::mul(S::mul(twice, twice), S::set1(0.25F));
  return S::fma(twice, atanh_series<S>(w), twice);
}

/// ln x for a positive normal x (p-norms). Error < 3 ulp, near x = 1 as well.
template <class S>
inline typename S::F log_f32(typename S::F x) {
  using F = typename S::F;
  // x = m 2^n with m in [sqrt(1/2), sqrt 2): 0x3F3504F3 is sqrt(1/2).
  const typename S::I offset = S::sub_int(S::bits(x), S::set1_int(0x3F3504F3));
  const typename S::I n = S::template shift_right_arithmetic<23>(offset);
  const F m = S::from_bits(S::sub_int(S::bits(x), S::template shift_left<23>(n)));
  const F less_one = S::sub(m, S::set1(1.0F));  // exact
  const F twice = S::div(less_one, S::fma(less_one, S::set1(0.5F), S::set1(1.0F)));
  const F w = S::mul(S::mul(twice, twice), S::set1(0.25F));
  const F whole = S::from_int(n);
  const F low = S::fma(whole, S::set1(0x1.7f7d1cp-20F), S::mul(twice, atanh_series<S>(w)));
  return S::fma(whole, S::set1(0x1.62e4p-1F), S::add(twice, low));
}

/// ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|), stable at both ends; e^x far below 0. Error < 3 ulp.
template <class S>
inline typename S::F softplus_f32(typename S::F x) {
  using F = typename S::F;
  const typename S::I sign = S::set1_int(std::numeric_limits<std::int32_t>::min());
  const F minus_magnitude = S::from_bits(S::or_int(S::bits(x), sign));
  return S::add(S::max(S::set1(0.0F), x), log1p_unit_f32<S>(exp_f32<S>(minus_magnitude)));
}

/// sqrt(ln(1 + e^x)): the scores of DeepSeek-V4. Error < 3 ulp.
template <class S>
inline typename S::F sqrt_softplus_f32(typename S::F x) {
  return S::sqrt(softplus_f32<S>(x));
}

/// tanh x. Lambert's continued fraction below 0.625 (left out: 6e-10), 1 - 2 / (e^(2|x|) + 1)
/// above. Error < 2 ulp; odd, -0 stays -0.
template <class S>
inline typename S::F tanh_f32(typename S::F x) {
  using F = typename S::F;
  const typename S::I magnitude_bits = S::and_int(S::bits(x), S::set1_int(0x7FFFFFFF));
  const F a = S::from_bits(magnitude_bits);
  // tanh a = a - a w (315 + 14 w) / (945 + 420 w + 15 w^2), w = a^2.
  const F near = S::min(S::set1(0.625F), a);
  const F w = S::mul(near, near);
  const F top = S::mul(w, S::fma(w, S::set1(-14.0F), S::set1(-315.0F)));
  const F bottom = S::fma(w, S::fma(w, S::set1(15.0F), S::set1(420.0F)), S::set1(945.0F));
  const F small = S::fma(near, S::div(top, bottom), near);
  const F e = exp_f32<S>(S::add(a, a));
  const F large = S::sub(S::set1(1.0F), S::div(S::set1(2.0F), S::add(e, S::set1(1.0F))));
  const F result = S::select(S::less(a, S::set1(0.625F)), small, large);
  const typename S::I sign = S::xor_int(S::bits(x), magnitude_bits);
  return S::from_bits(S::or_int(S::bits(result), sign));
}

}  // namespace fusedmoe
