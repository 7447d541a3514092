#include "fusedmoe/dtype.h"

#include <algorithm>
#include <array>

namespace fusedmoe {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int bits;
};

constexpr std::array kDTypes = {
    DTypeRow{DType::kBool, "BOOL", 8},
    DTypeRow{DType::kF4, "F4", 4},
    DTypeRow{DType::kF6E2M3, "F6_E2M3", 6},
    DTypeRow{DType::kF6E3M2, "F6_E3M2", 6},
    DTypeRow{DType::kU8, "U8", 8},
    DTypeRow{DType::kI8, "I8", 8},
    DTypeRow{DType::kF8E5M2, "F8_E5M2", 8},
    DTypeRow{DType::kF8E4M3, "F8_E4M3", 8},
    DTypeRow{DType::kF8E8M0, "F8_E8M0", 8},
    DTypeRow{DType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    DTypeRow{DType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    DTypeRow{DType::kI16, "I16", 16},
    DTypeRow{DType::kU16, "U16", 16},
    DTypeRow{DType::kF16, "F16", 16},
    DTypeRow{DType::kBF16, "BF16", 16},
    DTypeRow{DType::kI32, "I32", 32},
    DTypeRow{DType::kU32, "U32", 32},
    DTypeRow{DType::kF32, "F32", 32},
    DTypeRow{DType::kI64, "I64", 64},
    DTypeRow{DType::kU64, "U64", 64},
    DTypeRow{DType::kF64, "F64", 64},
    DTypeRow{DType::kC64, "C64", 64},
};

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (static_cast<std::size_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

const DTypeRow& row(DType dtype) noexcept { return kDTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view dtype_name(DType dtype) noexcept { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  const auto* found = std::find_if(kDTypes.begin(), kDTypes.end(),
                                   [&](const DTypeRow& r) { return r.name == name; });
  if (found == kDTypes.end()) return std::nullopt;
  return found->dtype;
}

int dtype_bits(DType dtype) noexcept { return row(dtype).bits; }

bool is_activation_dtype(DType dtype) noexcept {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32;
}

}  // namespace fusedmoe
