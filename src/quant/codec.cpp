#include "quant/codec.h"

#include <bit>
#include <cmath>
#include <limits>

namespace fusedmoe {
namespace {

// A float format of 8 bits: sign, `exponent_bits`, the rest mantissa.
struct SmallFloat {
  int mantissa_bits;
  int bias;
  float largest;
  std::uint8_t largest_code;
  std::uint8_t nan_code;
};

constexpr SmallFloat kE4M3{3, 7, 448.0F, 0x7E, 0x7F};
constexpr SmallFloat kE4M3Fnuz{3, 8, 240.0F, 0x7F, 0x80};
constexpr SmallFloat kE5M2{2, 15, 57344.0F, 0x7B, 0x7F};

float decode_magnitude(std::uint8_t code, const SmallFloat& f) {
  const int mantissa_mask = (1 << f.mantissa_bits) - 1;
  const int exponent = (code & 0x7F) >> f.mantissa_bits;
  const int mantissa = code & mantissa_mask;
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits);
  return std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa_bits)),
                    exponent - f.bias - f.mantissa_bits);
}

float decode(std::uint8_t code, const SmallFloat& f) {
  const float magnitude = decode_magnitude(code, f);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// Magnitude code of a finite value >= 0: the exponent picks the step, the step is rounded to even.
std::uint8_t encode_magnitude(float magnitude, const SmallFloat& f) {
  if (magnitude >= f.largest) return f.largest_code;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent, m in [0.5, 1)
  const int smallest = 1 - f.bias;
  const int power = exponent - 1 > smallest ? exponent - 1 : smallest;
  const float steps = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - power));
  const int code = ((power - smallest) << f.mantissa_bits) + static_cast<int>(steps);
  return static_cast<std::uint8_t>(code > f.largest_code ? f.largest_code : code);
}

std::uint8_t encode(float value, const SmallFloat& f) {
  if (std::isnan(value)) return f.nan_code;
  const std::uint8_t code = encode_magnitude(std::fabs(value), f);
  return std::signbit(value) ? static_cast<std::uint8_t>(code | 0x80) : code;
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kE2M1[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

}  // namespace

float decode_e4m3(std::uint8_t code) noexcept {
  return (code & 0x7F) == 0x7F ? kNaN : decode(code, kE4M3);
}
std::uint8_t encode_e4m3(float value) noexcept { return encode(value, kE4M3); }

float decode_e4m3fnuz(std::uint8_t code) noexcept {
  return code == 0x80 ? kNaN : decode(code, kE4M3Fnuz);
}
std::uint8_t encode_e4m3fnuz(float value) noexcept {
  const std::uint8_t code = encode(value, kE4M3Fnuz);
  return code == 0x80 && !std::isnan(value) ? 0 : code;  // there is no -0
}

float decode_e5m2(std::uint8_t code) noexcept {
  if ((code & 0x7F) > 0x7C) return kNaN;
  if ((code & 0x7F) == 0x7C) {
    const float infinity = std::numeric_limits<float>::infinity();
    return code == 0x7C ? infinity : -infinity;
  }
  return decode(code, kE5M2);
}
std::uint8_t encode_e5m2(float value) noexcept { return encode(value, kE5M2); }

float decode_e8m0(std::uint8_t code) noexcept {
  return code == 0xFF ? kNaN : std::ldexp(1.0F, static_cast<int>(code) - 127);
}

int encode_e8m0(float value) noexcept {
  int exponent = 0;
  const bool power = value > 0.0F && std::isfinite(value) && std::frexp(value, &exponent) == 0.5F;
  const int code = exponent - 1 + 127;
  return power && code >= 0 && code <= 254 ? code : -1;
}

float decode_e2m1(std::uint8_t code) noexcept {
  const float magnitude = kE2M1[code & 7];
  return (code & 8) != 0 ? -magnitude : magnitude;
}

std::uint8_t encode_e2m1(float value) noexcept {
  const float magnitude = std::fabs(value);
  // Decision points: halfway between neighbors; a tie goes to the even code.
  std::uint8_t code = 0;
  while (code < 7) {
    const float half = 0.5F * (kE2M1[code] + kE2M1[code + 1]);
    const bool stays = magnitude < half || (magnitude == half && code % 2 == 0);
    if (stays) break;
    ++code;
  }
  return value < 0.0F ? static_cast<std::uint8_t>(code | 8) : code;
}

}  // namespace fusedmoe
