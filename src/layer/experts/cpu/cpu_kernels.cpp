#include "layer/experts/cpu/cpu_kernels.h"

#include "fusedmoe/error.h"
#include "layer/experts/cpu/ops_tables.h"
#include "layer/experts/cpu/run.h"

namespace fusedmoe::cpu {
namespace {

constexpr std::int64_t kPairs = 2;       // two neighboring k are one word
constexpr std::int64_t kTileDepth = 32;  // one AMX tile product takes 32 k

std::unique_ptr<ExpertsKernel> make(const ExpertsProblem& problem, const Ops* ops,
                                    std::int64_t k_unit, const char* description) {
  if (ops == nullptr) {
    throw Error(ErrorCode::kInternal, "[experts] kernel chosen that this build does not have");
  }
  return std::make_unique<PanelExpertsKernel>(problem, *ops, k_unit, description);
}

constexpr const char* kWidened = "weights widened to f32 in registers, one fma chain per output";

}  // namespace

std::unique_ptr<ExpertsKernel> make_amx_bf16(const ExpertsProblem& problem) {
  return make(problem, amx_bf16_ops(), kTileDepth, "tile products of 32 k, one f32 sum per output");
}
std::unique_ptr<ExpertsKernel> make_avx512_bf16(const ExpertsProblem& problem) {
  return make(problem, avx512_bf16_ops(), kPairs, "vdpbf16ps, one f32 sum per output");
}
std::unique_ptr<ExpertsKernel> make_avx512_f32(const ExpertsProblem& problem) {
  return make(problem, avx512_f32_ops(problem.weight_dtype), kPairs, kWidened);
}
std::unique_ptr<ExpertsKernel> make_avx2_f32(const ExpertsProblem& problem) {
  return make(problem, avx2_f32_ops(problem.weight_dtype), kPairs, kWidened);
}
std::unique_ptr<ExpertsKernel> make_neon_f32(const ExpertsProblem& problem) {
  return make(problem, neon_f32_ops(problem.weight_dtype), kPairs, kWidened);
}
std::unique_ptr<ExpertsKernel> make_scalar_f32(const ExpertsProblem& problem) {
  return make(problem, scalar_f32_ops(problem.weight_dtype), kPairs, kWidened);
}

const Ops& best_f32_ops(DType weight_dtype) {
  struct Candidate {
    Isa isa;
    const Ops* (*ops)(DType);
  };
  constexpr Candidate kCandidates[] = {
      {Isa::kAvx512, avx512_f32_ops}, {Isa::kAvx2, avx2_f32_ops}, {Isa::kNeon, neon_f32_ops}};
  for (const Candidate& c : kCandidates) {
    if (missing_isa_reason(c.isa).empty()) return *c.ops(weight_dtype);
  }
  return *scalar_f32_ops(weight_dtype);
}

}  // namespace fusedmoe::cpu
