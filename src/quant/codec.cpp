#include "quant/codec.h"

#include <algorithm>
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

// Magnitude code of a value >= 0. The exponent picks the step; what is left over is compared with
// half a step, so the result does not depend on the host's rounding mode. A significand that rounds
// up to the next power of two carries into the exponent field by plain addition.
std::uint8_t encode_magnitude(float magnitude, const SmallFloat& f) {
  if (magnitude >= f.largest) return f.largest_code;
  if (magnitude == 0.0F) return 0;  // has no exponent to ask for
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent, m in [0.5, 1)
  const int smallest = 1 - f.bias;
  const int power = std::max(exponent - 1, smallest);
  const double steps =
      std::ldexp(static_cast<double>(magnitude), f.mantissa_bits - power);  // exact
  int significand = static_cast<int>(steps);
  const double rest = steps - significand;
  if (rest > 0.5 || (rest == 0.5 && significand % 2 != 0)) ++significand;
  const int code = ((power - smallest) << f.mantissa_bits) + significand;
  return static_cast<std::uint8_t>(std::min(code, static_cast<int>(f.largest_code)));
}

std::uint8_t encode(float value, const SmallFloat& f) {
  if (std::isnan(value)) return f.nan_code;
  const std::uint8_t code = encode_magnitude(std::fabs(value), f);
  return std::signbit(value) ? static_cast<std::uint8_t>(code | 0x80) : code;
}

ByteTable make_table(float (*decode_code)(std::uint8_t) noexcept) noexcept {
  ByteTable table;
  for (std::size_t code = 0; code < table.size(); ++code) {
    table[code] = decode_code(static_cast<std::uint8_t>(code));
  }
  return table;
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
  if (code == 0xFF) return kNaN;
  if (code == 0) return std::bit_cast<float>(0x00400000U);  // 2^-127, a subnormal
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

int encode_e8m0(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (bits == 0x00400000U) return 0;
  const std::uint32_t exponent = bits >> 23;  // with the sign: above 255 for a negative number
  const bool is_power = (bits & 0x7FFFFFU) == 0 && exponent > 0 && exponent < 255;
  return is_power ? static_cast<int>(exponent) : -1;
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

const ByteTable& e4m3_table() noexcept {
  static const ByteTable table = make_table(decode_e4m3);
  return table;
}
const ByteTable& e4m3fnuz_table() noexcept {
  static const ByteTable table = make_table(decode_e4m3fnuz);
  return table;
}
const ByteTable& e5m2_table() noexcept {
  static const ByteTable table = make_table(decode_e5m2);
  return table;
}
const ByteTable& e8m0_table() noexcept {
  static const ByteTable table = make_table(decode_e8m0);
  return table;
}

}  // namespace fusedmoe
