// Element types: every dtype that a safetensors header can name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fusedmoe {

enum class DType : std::uint8_t {
  kBool,
  kF4,  ///< E2M1; shapes count elements, two to a byte, the first in the low nibble
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
  kC64,
};

/// The name in safetensors headers: "BF16", "F8_E4M3", ...
std::string_view dtype_name(DType dtype) noexcept;

/// The dtype of a safetensors name; empty for a name that the format does not have.
std::optional<DType> dtype_from_name(std::string_view name) noexcept;

/// Size of one element in bits: 4, 6, 8, 16, 32 or 64.
int dtype_bits(DType dtype) noexcept;

/// True for the types that hold unquantized weights and activations: F16, BF16, F32.
bool is_activation_dtype(DType dtype) noexcept;

}  // namespace fusedmoe
