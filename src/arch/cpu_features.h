// What this processor offers, found at run time: one program runs everywhere.
#pragma once

#include <string>

namespace fusedmoe {

/// Instruction sets that a kernel can need. `kBaseline` is what the program is compiled for.
enum class Isa { kBaseline, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16, kNeon };

/// "baseline", "avx2", ...
const char* isa_name(Isa isa) noexcept;

struct CpuFeatures {
  bool avx2 = false;    ///< with FMA and F16C, and the system saves the registers
  bool avx512 = false;  ///< F, BW, DQ, VL
  bool avx512_bf16 = false;
  bool amx_bf16 = false;  ///< tile and bf16, and the system has granted the tile registers
  bool neon = false;
  /// `vdpbf16ps` starts as often as an fp32 FMA (AMD Zen 4 and later); on Intel it starts half as
  /// often and does no more arithmetic than widening and FMA.
  bool full_rate_bf16_dot = false;
};

/// Detected once. The environment variable FUSEDMOE_ISA hides everything above the named set
/// ("baseline", "avx2", "avx512", "avx512_bf16", "amx_bf16").
const CpuFeatures& cpu_features_detected();

/// Why the processor cannot run code for `isa`; empty when it can.
std::string missing_isa_reason(Isa isa);

}  // namespace fusedmoe
