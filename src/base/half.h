// Exact conversions between f32 and the 16-bit floats, without hardware support.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "fusedmoe/dtype.h"

namespace fusedmoe {

inline float bf16_to_f32(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Round to nearest even; a NaN stays a (quiet) NaN.
inline std::uint16_t f32_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

inline float f16_to_f32(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

/// Round to nearest even; overflow gives infinity, a NaN stays a (quiet) NaN.
inline std::uint16_t f32_to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x1FFU));
  }
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // >= 65520
  if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 aligns the last subnormal bit
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) & 0x7FFU));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xFFFU + odd) >> 13));
}

/// One element of an F32, BF16 or F16 array; `data` need not be aligned.
inline float load_as_f32(const void* data, DType dtype, std::int64_t index) noexcept {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, static_cast<const char*>(data) + index * 4, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(data) + index * 2, 2);
  return dtype == DType::kBF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

/// Rounds to `dtype` (BF16 or F16; F32 is the identity) and back.
inline float round_to(float value, DType dtype) noexcept {
  if (dtype == DType::kBF16) return bf16_to_f32(f32_to_bf16(value));
  if (dtype == DType::kF16) return f16_to_f32(f32_to_f16(value));
  return value;
}

/// Stores `value` into an F32, BF16 or F16 array, rounding to nearest even.
inline void store_from_f32(void* data, DType dtype, std::int64_t index, float value) noexcept {
  if (dtype == DType::kF32) {
    std::memcpy(static_cast<char*>(data) + index * 4, &value, 4);
    return;
  }
  const std::uint16_t bits = dtype == DType::kBF16 ? f32_to_bf16(value) : f32_to_f16(value);
  std::memcpy(static_cast<char*>(data) + index * 2, &bits, 2);
}

}  // namespace fusedmoe
