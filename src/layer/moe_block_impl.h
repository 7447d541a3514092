// The inside of MoeBlock.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "fusedmoe/layer.h"
#include "layer/fused_moe_impl.h"
#include "layer/linear.h"

namespace fusedmoe {

struct MoeBlock::Impl {
  Impl(const MoeLayerDescription& d, DType dtype, const ParallelLayout& layout);

  MoeLayerDescription description;
  DType hidden_dtype;
  ParallelLayout parallel;
  FusedMoE experts;
  /// The shared expert as a layer of one expert that every token takes; absent without one, and on
  /// ranks that do not compute it.
  std::unique_ptr<FusedMoE> shared;
  bool shared_enabled = true;

  Linear router;
  Linear shared_gate;
  std::vector<float> router_input_scale;  ///< [H], times H^-0.5; empty: the router reads x itself
  std::vector<std::int64_t> hash_table;   ///< [vocab, k]; empty: routed by logits
  std::int64_t vocab_size = 0;
  TopKConfig routing;  ///< with bias and scale vectors filled

  std::unique_ptr<Executor> own_executor;
  Executor* executor = nullptr;
  PlanReport report;
  bool loaded = false;
  mutable std::atomic<std::int64_t> dead_rows{0};

  const PlanReport& plan(const PlanOptions& options);
  LoadReport load(const Checkpoint& checkpoint, const LoadOptions& options);
  void check_inputs(const MoeBlockInputs& in, const MutableTensorView& out,
                    const MoeBlockOutputs& outputs) const;

  struct Buffers;
  /// The one place that lays the workspace out; with a counting arena it measures.
  Buffers take_buffers(Arena& arena, std::int64_t num_tokens) const;
  std::size_t measure(std::int64_t num_tokens) const;
  void run(const MoeBlockInputs& in, const MutableTensorView& out, std::span<std::byte> memory,
           const MoeBlockOutputs& outputs) const;
  void compute_logits(const HiddenRows& x, std::int64_t num_tokens, Buffers& buffers) const;
  void route_rows(const MoeBlockInputs& in, std::int64_t num_tokens, const TensorView& logits,
                  Buffers& buffers) const;
  void add_shared(const TensorView& hidden, const MutableTensorView& out, Buffers& buffers) const;
};

}  // namespace fusedmoe
