// The kernel table: what there is, what runs here, and why not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusedmoe/activation.h"
#include "fusedmoe/dtype.h"

namespace fusedmoe {

/// The static facts that choose a kernel. Never the number of tokens.
struct ExpertsProblem {
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  ///< of this rank
  std::int64_t num_local_experts = 0;
  std::int64_t top_k = 0;
  DType weight_dtype = DType::kBF16;
  DType hidden_dtype = DType::kBF16;
  ActivationConfig activation;
  bool has_bias = false;
};

/// One row of the table against one problem.
struct KernelChoice {
  std::string stage;       ///< "experts"
  std::string name;        ///< "avx512_f32"
  std::string arithmetic;  ///< "cpu_f32": kernels of one arithmetic give the same bits
  std::string isa;         ///< instruction set that it needs: "avx512"
  std::string
      reason;  ///< why it cannot serve this problem here, or is not preferred; empty: it can
  bool chosen = false;
};

/// Every kernel, best first, with its reason for `problem`; one of them is chosen.
/// @param forced "" or a kernel's or arithmetic's name. `FUSEDMOE_KERNEL=experts:<name>` in the
///               environment does the same when this is empty.
/// @throws Error(kUnsupported) when nothing (or not the forced one) can serve, listing all reasons.
std::vector<KernelChoice> choose_kernel(const ExpertsProblem& problem,
                                        const std::string& forced = "");

/// What the processor offers: "x86-64: avx2 avx512f avx512bw avx512_bf16", one word a feature.
std::string cpu_features();

}  // namespace fusedmoe
