// The CPU kernels of the table. Where the compiler cannot make one (another processor family), its
// function throws Error(kUnsupported); the table never calls it, since the instruction set is
// absent.
#pragma once

#include <memory>

#include "layer/experts/experts.h"

namespace fusedmoe::cpu {

std::unique_ptr<ExpertsKernel> make_amx_bf16(const ExpertsProblem& problem);
std::unique_ptr<ExpertsKernel> make_avx512_bf16(const ExpertsProblem& problem);
std::unique_ptr<ExpertsKernel> make_avx512_f32(const ExpertsProblem& problem);
std::unique_ptr<ExpertsKernel> make_avx2_f32(const ExpertsProblem& problem);
std::unique_ptr<ExpertsKernel> make_neon_f32(const ExpertsProblem& problem);
std::unique_ptr<ExpertsKernel> make_scalar_f32(const ExpertsProblem& problem);

}  // namespace fusedmoe::cpu
