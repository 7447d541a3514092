// The small float formats against their definition: every code, every tie, every rounding mode.
#include "quant/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/half.h"
#include "reference/layer_data.h"

namespace fusedmoe {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A format as its specification states it: sign, exponent field, mantissa field, and which codes
// are no numbers.
struct Format {
  const char* name;
  float (*decode)(std::uint8_t) noexcept;
  std::uint8_t (*encode)(float) noexcept;
  int num_bits;
  int mantissa_bits;
  int bias;
  int largest_code;  // of the largest finite magnitude
  bool has_negative_zero;
  std::vector<int> nan_codes;
};

const Format kE4M3{"e4m3fn", decode_e4m3, encode_e4m3, 8, 3, 7, 0x7E, true, {0x7F, 0xFF}};
const Format kE4M3Fnuz{"e4m3fnuz", decode_e4m3fnuz, encode_e4m3fnuz, 8, 3, 8, 0x7F, false, {0x80}};
const Format kE5M2{
    "e5m2", decode_e5m2, encode_e5m2, 8, 2, 15, 0x7B, true, {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}};
const Format kE2M1{"e2m1", decode_e2m1, encode_e2m1, 4, 1, 1, 0x7, true, {}};

int sign_bit(const Format& f) { return 1 << (f.num_bits - 1); }

double magnitude_of(const Format& f, int code) {
  const int exponent = code >> f.mantissa_bits;
  const double fraction = (code & ((1 << f.mantissa_bits) - 1)) / std::exp2(f.mantissa_bits);
  return exponent == 0 ? fraction * std::exp2(1 - f.bias)
                       : (1.0 + fraction) * std::exp2(exponent - f.bias);
}

// The nearest code; of two equally near ones that with an even mantissa; never beyond the largest.
int nearest_code(const Format& f, float value) {
  const double magnitude =
      std::min(std::fabs(static_cast<double>(value)), magnitude_of(f, f.largest_code));
  int below = 0;
  for (int step = sign_bit(f) / 2; step > 0; step /= 2) {
    if (below + step <= f.largest_code && magnitude_of(f, below + step) <= magnitude) below += step;
  }
  if (below == f.largest_code) return below;
  const double down = magnitude - magnitude_of(f, below);
  const double up = magnitude_of(f, below + 1) - magnitude;
  return down < up || (down == up && below % 2 == 0) ? below : below + 1;
}

int expected_code(const Format& f, float value) {
  const int code = nearest_code(f, value);
  const bool keeps_sign = code != 0 || (f.has_negative_zero && (value < 0.0F || f.num_bits == 8));
  return std::signbit(value) && keeps_sign ? code | sign_bit(f) : code;
}

// Every finite code, every point halfway between two, the neighbors of all of them, what lies
// beyond the ends, every bf16, and a sample of other floats; with both signs.
std::vector<float> interesting_values(const Format& f) {
  std::vector<float> values = {0.0F,     0x1p-149F, 0x1p-126F, 464.0F,
                               480.0F,   61440.0F,  65536.0F,  std::numeric_limits<float>::max(),
                               kInfinity};
  const auto add = [&](double at) {
    const auto value = static_cast<float>(at);
    values.insert(values.end(),
                  {value, std::nextafter(value, 0.0F), std::nextafter(value, kInfinity)});
  };
  for (int code = 0; code <= f.largest_code; ++code) {
    add(magnitude_of(f, code));
    const double next =
        code < f.largest_code ? magnitude_of(f, code + 1) : magnitude_of(f, code) * 1.125;
    for (const double part : {0.25, 0.5, 0.75}) {
      add(magnitude_of(f, code) + part * (next - magnitude_of(f, code)));
    }
  }
  for (int bits = 0; bits < 0x7F80; ++bits) {
    values.push_back(bf16_to_f32(static_cast<std::uint16_t>(bits)));
  }
  test::Random random(7);
  for (int i = 0; i < 20000; ++i) {
    const double scale = magnitude_of(f, f.largest_code) * std::exp2(-random.below(24));
    values.push_back(static_cast<float>(random.uniform() * scale));
  }
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  return values;
}

// Restores the host's rounding mode at the end of a test.
class RoundingMode {
 public:
  explicit RoundingMode(int mode) : former_(std::fegetround()) { std::fesetround(mode); }
  ~RoundingMode() { std::fesetround(former_); }
  RoundingMode(const RoundingMode&) = delete;
  RoundingMode& operator=(const RoundingMode&) = delete;

 private:
  int former_;
};

class Codec : public ::testing::TestWithParam<Format> {};

TEST_P(Codec, decodes_every_code) {
  const Format& f = GetParam();
  for (int code = 0; code < 1 << f.num_bits; ++code) {
    const float value = f.decode(static_cast<std::uint8_t>(code));
    if (std::count(f.nan_codes.begin(), f.nan_codes.end(), code) > 0) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    const int magnitude_code = code & (sign_bit(f) - 1);
    const double magnitude =
        magnitude_code > f.largest_code ? kInfinity : magnitude_of(f, magnitude_code);
    EXPECT_EQ(std::fabs(value), magnitude) << code;
    EXPECT_EQ(std::signbit(value), (code & sign_bit(f)) != 0) << code;
  }
}

TEST_P(Codec, encodes_what_it_decodes) {
  const Format& f = GetParam();
  for (int code = 0; code < 1 << f.num_bits; ++code) {
    const float value = f.decode(static_cast<std::uint8_t>(code));
    if (!std::isfinite(value)) continue;
    // Packed zeros of this format are compared by value: an exact -0 is written as 0.
    const bool drops_sign = f.num_bits == 4 && value == 0.0F;
    EXPECT_EQ(f.encode(value), drops_sign ? 0 : code);
  }
}

TEST_P(Codec, rounds_to_nearest_even_and_saturates_in_every_rounding_mode) {
  const Format& f = GetParam();
  const std::vector<float> values = interesting_values(f);
  std::vector<int> expected;
  for (const float value : values) expected.push_back(expected_code(f, value));
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::vector<int> got;
    std::vector<float> decoded;
    {
      const RoundingMode changed(mode);
      for (const float value : values) got.push_back(f.encode(value));
      for (int code = 0; code <= f.largest_code; ++code) {
        decoded.push_back(f.decode(static_cast<std::uint8_t>(code)));
      }
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(got[i], expected[i]) << values[i] << " mode " << mode;
    }
    for (int code = 0; code <= f.largest_code; ++code) {
      ASSERT_EQ(decoded[static_cast<std::size_t>(code)], magnitude_of(f, code)) << "mode " << mode;
    }
  }
}

TEST_P(Codec, nan_stays_nan_where_the_format_has_one) {
  const Format& f = GetParam();
  for (const float nan : {kNaN, -kNaN}) {
    const std::uint8_t code = f.encode(nan);
    if (f.nan_codes.empty()) {
      EXPECT_EQ(code, f.largest_code);
    } else {
      EXPECT_TRUE(std::isnan(f.decode(code)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Codec, ::testing::Values(kE4M3, kE4M3Fnuz, kE5M2, kE2M1),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(CodecPoints, one_byte_has_different_meanings) {
  EXPECT_EQ(decode_e4m3(0x38), 1.0F);
  EXPECT_EQ(decode_e4m3fnuz(0x38), 0.5F);
  EXPECT_EQ(decode_e4m3(0x7E), 448.0F);
  EXPECT_EQ(decode_e4m3fnuz(0x7E), 224.0F);
  EXPECT_TRUE(std::isnan(decode_e4m3(0x7F)));
  EXPECT_EQ(decode_e4m3fnuz(0x7F), 240.0F);
  EXPECT_TRUE(std::signbit(decode_e4m3(0x80)));
  EXPECT_TRUE(std::isnan(decode_e4m3fnuz(0x80)));
  EXPECT_EQ(decode_e5m2(0x7C), kInfinity);
  EXPECT_EQ(decode_e5m2(0xFC), -kInfinity);
}

TEST(CodecPoints, ends_of_the_ranges) {
  EXPECT_EQ(decode_e4m3(0x08), 0x1p-6F);
  EXPECT_EQ(decode_e4m3(0x01), 0x1p-9F);
  EXPECT_EQ(decode_e4m3fnuz(0x08), 0x1p-7F);
  EXPECT_EQ(decode_e4m3fnuz(0x01), 0x1p-10F);
  EXPECT_EQ(decode_e5m2(0x7B), 57344.0F);
  EXPECT_EQ(decode_e5m2(0x04), 0x1p-14F);
  EXPECT_EQ(decode_e5m2(0x01), 0x1p-16F);
}

TEST(CodecPoints, ties_of_e4m3) {
  EXPECT_EQ(encode_e4m3(1.0625F), 0x38);
  EXPECT_EQ(encode_e4m3(1.1875F), 0x3A);
  EXPECT_EQ(encode_e4m3(432.0F), 0x7E);
  EXPECT_EQ(encode_e4m3(0x1p-10F), 0x00);
  EXPECT_EQ(encode_e4m3(0x1.8p-10F), 0x01);
  EXPECT_EQ(encode_e4m3(500.0F), 0x7E);
  EXPECT_EQ(encode_e4m3(-17.3F), 0xD9);
}

TEST(CodecPoints, decision_points_of_e2m1) {
  struct Point {
    float at;
    int below, on, above;
  };
  for (const Point& p :
       {Point{0.25F, 0, 0, 1}, Point{0.75F, 1, 2, 2}, Point{1.25F, 2, 2, 3}, Point{1.75F, 3, 4, 4},
        Point{2.5F, 4, 4, 5}, Point{3.5F, 5, 6, 6}, Point{5.0F, 6, 6, 7}}) {
    EXPECT_EQ(encode_e2m1(std::nextafter(p.at, 0.0F)), p.below) << p.at;
    EXPECT_EQ(encode_e2m1(p.at), p.on) << p.at;
    EXPECT_EQ(encode_e2m1(std::nextafter(p.at, kInfinity)), p.above) << p.at;
  }
}

TEST(CodecPoints, signs_of_small_e2m1) {
  EXPECT_EQ(encode_e2m1(0.0F), 0);
  EXPECT_EQ(encode_e2m1(-0.0F), 0);
  EXPECT_EQ(encode_e2m1(-0.2F), 8);
  EXPECT_EQ(encode_e2m1(-0x1p-149F), 8);
  EXPECT_TRUE(std::signbit(decode_e2m1(8)));
}

TEST(CodecPoints, fnuz_has_no_negative_zero) {
  EXPECT_EQ(encode_e4m3fnuz(-0.0F), 0x00);
  EXPECT_EQ(encode_e4m3fnuz(-0x1p-12F), 0x00);
  EXPECT_EQ(encode_e4m3fnuz(-0x1p-10F), 0x81);
}

TEST(CodecE8m0, decodes_every_code) {
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(decode_e8m0(static_cast<std::uint8_t>(code)), std::exp2(code - 127.0)) << code;
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(decode_e8m0(0)), 0x00400000U);  // subnormal, not flushed
  EXPECT_TRUE(std::isnan(decode_e8m0(0xFF)));
}

TEST(CodecE8m0, encodes_powers_of_two_only) {
  for (int code = 0; code < 255; ++code) {
    const float value = decode_e8m0(static_cast<std::uint8_t>(code));
    EXPECT_EQ(encode_e8m0(value), code);
    EXPECT_EQ(encode_e8m0(std::nextafter(value, 0.0F)), -1) << code;
    EXPECT_EQ(encode_e8m0(std::nextafter(value, kInfinity)), -1) << code;
    EXPECT_EQ(encode_e8m0(-value), -1) << code;
  }
  for (const float value : {0.0F, -0.0F, 0x1p-128F, 0x1p-149F, 3.0F, kInfinity, -kInfinity, kNaN}) {
    EXPECT_EQ(encode_e8m0(value), -1) << value;
  }
}

}  // namespace
}  // namespace fusedmoe
