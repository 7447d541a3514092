// The experts stage: routed rows in, weighted slot rows out.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/cpu_features.h"
#include "fusedmoe/executor.h"
#include "fusedmoe/kernels.h"
#include "layer/arena.h"
#include "layer/stage_types.h"
#include "weights/packer.h"

namespace fusedmoe {

/// One run of the experts over a batch.
struct ExpertsCall {
  const ExpertBatch* batch = nullptr;
  HiddenRows hidden;
  const float* topk_weights = nullptr;  ///< [num_slots]
  bool weight_on_input = false;         ///< w * (W13 x + b13), and not again at the output
  const ExpertWeights* weights = nullptr;
  SlotRows slots;
};

/// Sums slot rows into token rows: y = round(factor * sum_j), j ascending from +0, absent slots
/// skipped, identity slots reading round(w * x).
struct CombineCall {
  const ExpertBatch* batch = nullptr;
  SlotRows slots;
  float factor = 1.0F;
  std::byte* out = nullptr;
  std::int64_t out_row_stride_bytes = 0;
};

/// A kernel made ready for one layer. Stateless between calls; scratch comes from the arena.
class ExpertsKernel {
 public:
  virtual ~ExpertsKernel() = default;
  virtual const Packer& packer() const noexcept = 0;
  /// Takes the scratch for `max_rows` routed rows from the arena (or only counts it).
  virtual void take_scratch(Arena& arena, std::int64_t max_rows, std::int64_t num_experts,
                            int num_threads) const = 0;
  /// Same arena state as `take_scratch` left: `scratch` is where it began.
  virtual void run(const ExpertsCall& call, Arena scratch, Executor& executor) const = 0;
  virtual void combine(const CombineCall& call, Executor& executor) const = 0;
  /// One line about its paths, for the plan's notes.
  virtual std::string describe() const = 0;
};

/// One row of the kernel table.
struct ExpertsKernelEntry {
  const char* name;
  const char* arithmetic;
  Isa isa;
  /// Why this kernel cannot serve the problem, whatever the processor; empty when it can.
  std::string (*supports)(const ExpertsProblem&);
  /// Why it is not preferred on this processor although it would run; empty when it is.
  std::string (*avoid)();
  std::unique_ptr<ExpertsKernel> (*make)(const ExpertsProblem&);
};

/// Best first, reference last.
std::span<const ExpertsKernelEntry> experts_kernels();

/// The entry that `choose_kernel` marked as chosen.
const ExpertsKernelEntry& chosen_entry(const std::vector<KernelChoice>& choices);

}  // namespace fusedmoe
