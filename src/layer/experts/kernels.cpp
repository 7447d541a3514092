// The ordered table of expert kernels, best first, and the choice among them.
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "fusedmoe/error.h"
#include "layer/experts/cpu/cpu_kernels.h"
#include "layer/experts/experts.h"
#include "layer/experts/reference/reference.h"

namespace fusedmoe {
namespace {

std::string supports_unquantized(const ExpertsProblem& p) {
  if (!is_activation_dtype(p.weight_dtype)) {
    return fmt::format("needs F32, BF16 or F16 weights, got {}", dtype_name(p.weight_dtype));
  }
  if (!is_activation_dtype(p.hidden_dtype)) {
    return fmt::format("needs F32, BF16 or F16 hidden states, got {}", dtype_name(p.hidden_dtype));
  }
  return {};
}

std::string supports_bf16_products(const ExpertsProblem& p) {
  if (p.weight_dtype != DType::kBF16 || p.hidden_dtype != DType::kBF16) {
    return fmt::format("multiplies BF16 by BF16, got weights {} and hidden states {}",
                       dtype_name(p.weight_dtype), dtype_name(p.hidden_dtype));
  }
  return {};
}

std::string never() { return {}; }

std::string avoid_half_rate_dot() {
  if (cpu_features_detected().full_rate_bf16_dot) return {};
  return "vdpbf16ps starts every second clock on this processor: widening and fp32 FMA is as fast "
         "or faster, and more exact (force it by name)";
}

constexpr ExpertsKernelEntry kKernels[] = {
    {"amx_bf16", "amx_bf16", Isa::kAmxBf16, supports_bf16_products, never, cpu::make_amx_bf16},
    {"avx512_bf16", "avx512_bf16", Isa::kAvx512Bf16, supports_bf16_products, avoid_half_rate_dot,
     cpu::make_avx512_bf16},
    {"avx512_f32", "cpu_f32", Isa::kAvx512, supports_unquantized, never, cpu::make_avx512_f32},
    {"avx2_f32", "cpu_f32", Isa::kAvx2, supports_unquantized, never, cpu::make_avx2_f32},
    {"neon_f32", "cpu_f32", Isa::kNeon, supports_unquantized, never, cpu::make_neon_f32},
    {"scalar_f32", "cpu_f32", Isa::kBaseline, supports_unquantized, never, cpu::make_scalar_f32},
    {"reference", "reference", Isa::kBaseline, supports_unquantized, never, make_reference},
};

std::string refusal(const ExpertsKernelEntry& entry, const ExpertsProblem& problem) {
  std::string reason = entry.supports(problem);
  if (reason.empty()) reason = missing_isa_reason(entry.isa);
  return reason;
}

std::string forced_name(const std::string& forced) {
  if (!forced.empty()) return forced;
  const char* variable = std::getenv("FUSEDMOE_KERNEL");
  if (variable == nullptr) return {};
  const std::string_view text(variable);
  constexpr std::string_view kStage = "experts:";
  if (text.starts_with(kStage)) return std::string(text.substr(kStage.size()));
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("[experts] FUSEDMOE_KERNEL: expected \"experts:<kernel>\", got \"{}\"", text));
}

[[noreturn]] void refuse_all(const std::vector<KernelChoice>& choices, const std::string& forced) {
  std::string message = forced.empty()
                            ? std::string("[experts] no kernel can serve this layer:")
                            : fmt::format(
                                  "[experts] kernel \"{}\" was asked for and cannot serve this "
                                  "layer here:",
                                  forced);
  for (const KernelChoice& c : choices) {
    message += fmt::format("\n  {} ({}): {}", c.name, c.arithmetic,
                           c.reason.empty() ? "can serve it" : c.reason);
  }
  throw Error(ErrorCode::kUnsupported, message);
}

}  // namespace

std::span<const ExpertsKernelEntry> experts_kernels() { return kKernels; }

std::vector<KernelChoice> choose_kernel(const ExpertsProblem& problem, const std::string& forced) {
  const std::string wanted = forced_name(forced);
  std::vector<KernelChoice> choices;
  bool found = false;
  for (const ExpertsKernelEntry& entry : kKernels) {
    KernelChoice choice{
        "experts", entry.name, entry.arithmetic, isa_name(entry.isa), refusal(entry, problem),
        false};
    const bool named = wanted == entry.name || wanted == entry.arithmetic;
    if (choice.reason.empty() && wanted.empty()) choice.reason = entry.avoid();
    if (choice.reason.empty() && !found && (wanted.empty() || named)) {
      choice.chosen = found = true;
    }
    choices.push_back(std::move(choice));
  }
  if (!found) refuse_all(choices, wanted);
  return choices;
}

const ExpertsKernelEntry& chosen_entry(const std::vector<KernelChoice>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].chosen) return kKernels[i];
  }
  throw Error(ErrorCode::kInternal, "[experts] no kernel is chosen");
}

}  // namespace fusedmoe
