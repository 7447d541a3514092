// Runs one batch through the panels of the hit experts: the part that all CPU kernels share.
#pragma once

#include "layer/experts/cpu/ops.h"
#include "layer/experts/cpu/packed_layout.h"
#include "layer/experts/experts.h"

namespace fusedmoe::cpu {

/// Scratch of one run, carved from the workspace.
struct Scratch {
  /// Rows [first_row, first_row + rows) of an expert that are multiplied together.
  struct Block {
    std::int64_t first_row;
    std::int32_t expert;
    std::int32_t rows;
  };
  std::span<Block> blocks;
  std::span<std::int32_t> hit_experts;      ///< local experts with rows, ascending
  std::span<std::int32_t> hit_first_block;  ///< [num_hit + 1]
  std::byte* x = nullptr;                   ///< packed hidden states, by row
  std::byte* a = nullptr;                   ///< packed activations, by row
};

/// One expert MLP on panels: packs rows, multiplies w13 and applies the activation, multiplies w2.
class PanelExpertsKernel final : public ExpertsKernel {
 public:
  PanelExpertsKernel(const ExpertsProblem& problem, const Ops& ops, std::int64_t k_unit,
                     std::string description);

  const Packer& packer() const noexcept override { return packer_; }
  void take_scratch(Arena& arena, std::int64_t max_rows, std::int64_t num_experts,
                    int num_threads) const override;
  void run(const ExpertsCall& call, Arena scratch, Executor& executor) const override;
  void combine(const CombineCall& call, Executor& executor) const override;
  std::string describe() const override;

 private:
  struct Run;
  struct PanelWork;
  class WorkCounter;
  template <class Body>
  void for_each_panel(Run& run, WorkCounter& counter, const PanelMatrix& matrix,
                      const Body& body) const;
  Scratch take(Arena& arena, std::int64_t max_rows, std::int64_t num_experts) const;
  void run_thread(Run& run, int thread) const;
  void pack_blocks(Run& run) const;
  void gate_up_panels(Run& run) const;
  void down_panels(Run& run) const;
  ActivationBlock block_of(std::byte* rows, const Scratch::Block& block,
                           std::int64_t k_padded) const;

  ExpertsProblem problem_;
  const Ops& ops_;
  ExpertLayout layout_;
  PanelPacker packer_;
  std::string description_;
};

}  // namespace fusedmoe::cpu
