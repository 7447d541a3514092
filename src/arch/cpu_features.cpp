#include "arch/cpu_features.h"

#include <cstdlib>
#include <string_view>

#include "fusedmoe/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fusedmoe {
namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool bit(unsigned word, int index) { return ((word >> index) & 1U) != 0; }

unsigned long enabled_state() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<unsigned long>(high) << 32) | low;
}

// Linux gives the 8 KiB of tile registers only to processes that ask, before their threads start.
bool request_amx_permission() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureXtileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtileData) == 0;
}

CpuFeatures detect() {
  CpuFeatures f;
  const Registers leaf1 = cpuid(1, 0);
  const bool os_saves = bit(leaf1.ecx, 27);
  if (!os_saves) return f;
  const unsigned long state = enabled_state();
  const bool ymm = (state & 0x6) == 0x6;
  const bool zmm = (state & 0xE6) == 0xE6;
  const bool tiles = (state & 0x60000) == 0x60000;
  const Registers leaf7 = cpuid(7, 0);
  const Registers leaf7_1 = cpuid(7, 1);
  f.avx2 = ymm && bit(leaf7.ebx, 5) && bit(leaf1.ecx, 12) && bit(leaf1.ecx, 29);
  f.avx512 = f.avx2 && zmm && bit(leaf7.ebx, 16) && bit(leaf7.ebx, 17) && bit(leaf7.ebx, 30) &&
             bit(leaf7.ebx, 31);
  f.avx512_bf16 = f.avx512 && bit(leaf7_1.eax, 5);
  f.amx_bf16 =
      f.avx512 && tiles && bit(leaf7.edx, 24) && bit(leaf7.edx, 22) && request_amx_permission();
  const Registers vendor = cpuid(0, 0);
  const bool amd = vendor.ebx == 0x68747541;  // "Auth"(enticAMD)
  f.full_rate_bf16_dot = f.avx512_bf16 && amd;
  return f;
}

#else

CpuFeatures detect() {
  CpuFeatures f;
#if defined(__aarch64__)
  f.neon = true;
#endif
  return f;
}

#endif

CpuFeatures detect_and_mask() {
  CpuFeatures f = detect();
  const char* limit = std::getenv("FUSEDMOE_ISA");
  if (limit == nullptr || *limit == '\0') return f;
  const std::string_view name(limit);
  struct Level {
    std::string_view name;
    int level;
  };
  constexpr Level kLevels[] = {{"baseline", 0},    {"avx2", 1},     {"avx512", 2},
                               {"avx512_bf16", 3}, {"amx_bf16", 4}, {"neon", 4}};
  int level = 4;
  for (const Level& known : kLevels) {
    if (known.name == name) level = known.level;
  }
  f.avx2 = f.avx2 && level >= 1;
  f.avx512 = f.avx512 && level >= 2;
  f.avx512_bf16 = f.avx512_bf16 && level >= 3;
  f.full_rate_bf16_dot = f.full_rate_bf16_dot && level >= 3;
  f.amx_bf16 = f.amx_bf16 && level >= 4;
  f.neon = f.neon && level >= 1;
  return f;
}

struct IsaRow {
  Isa isa;
  const char* name;
  bool CpuFeatures::*present;
};

constexpr IsaRow kIsas[] = {
    {Isa::kBaseline, "baseline", nullptr},
    {Isa::kAvx2, "avx2", &CpuFeatures::avx2},
    {Isa::kAvx512, "avx512", &CpuFeatures::avx512},
    {Isa::kAvx512Bf16, "avx512_bf16", &CpuFeatures::avx512_bf16},
    {Isa::kAmxBf16, "amx_bf16", &CpuFeatures::amx_bf16},
    {Isa::kNeon, "neon", &CpuFeatures::neon},
};

const IsaRow& row_of(Isa isa) { return kIsas[static_cast<int>(isa)]; }

}  // namespace

const char* isa_name(Isa isa) noexcept { return row_of(isa).name; }

const CpuFeatures& cpu_features_detected() {
  static const CpuFeatures features = detect_and_mask();
  return features;
}

std::string missing_isa_reason(Isa isa) {
  const IsaRow& row = row_of(isa);
  if (row.present == nullptr || cpu_features_detected().*row.present) return {};
  return std::string("this processor (or FUSEDMOE_ISA) does not offer ") + row.name;
}

std::string cpu_features() {
#if defined(__x86_64__)
  std::string text = "x86-64:";
#elif defined(__aarch64__)
  std::string text = "aarch64:";
#else
  std::string text = "unknown processor:";
#endif
  for (const IsaRow& row : kIsas) {
    if (row.present != nullptr && cpu_features_detected().*row.present) {
      text += std::string(" ") + row.name;
    }
  }
  return text;
}

}  // namespace fusedmoe
