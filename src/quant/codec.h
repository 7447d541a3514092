// Exact conversions between f32 and the small float formats.
//
// Decoding is exact. Encoding rounds to nearest even, whatever the host's rounding mode, and
// saturates; NaN becomes the format's NaN.
// Source: OCP 8-bit floating point specification 1.0, OCP microscaling formats 1.0.
#pragma once

#include <array>
#include <cstdint>

namespace fusedmoe {

/// F8_E4M3 ("fn"): bias 7, largest 448, NaN only 0x7F and 0xFF, no infinity.
float decode_e4m3(std::uint8_t code) noexcept;
std::uint8_t encode_e4m3(float value) noexcept;

/// F8_E4M3FNUZ: bias 8, largest 240, NaN only 0x80, no -0, no infinity.
float decode_e4m3fnuz(std::uint8_t code) noexcept;
std::uint8_t encode_e4m3fnuz(float value) noexcept;

/// F8_E5M2: as IEEE, largest 57344; encoding saturates instead of making infinities.
float decode_e5m2(std::uint8_t code) noexcept;
std::uint8_t encode_e5m2(float value) noexcept;

/// F8_E8M0: 2^(code - 127); 0xFF is NaN. Encoding takes exact powers of two only.
float decode_e8m0(std::uint8_t code) noexcept;
/// @return the code, or -1 when the value is no power of two in [2^-127, 2^127].
int encode_e8m0(float value) noexcept;

/// F4 E2M1, the code in the low nibble: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
float decode_e2m1(std::uint8_t code) noexcept;
/// Ties to the even mantissa, saturating at 6; a negative value that rounds to zero gives code 8,
/// -0 gives code 0. The format has no NaN: a NaN of either sign gives code 7 (6), so callers that
/// must not lose one look for it before.
std::uint8_t encode_e2m1(float value) noexcept;

/// All 256 numbers of an 8-bit format, by code.
using ByteTable = std::array<float, 256>;
const ByteTable& e4m3_table() noexcept;
const ByteTable& e4m3fnuz_table() noexcept;
const ByteTable& e5m2_table() noexcept;
const ByteTable& e8m0_table() noexcept;

}  // namespace fusedmoe
