// The inside of FusedMoE, shared with MoeBlock, which runs layers within its own workspace.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "fusedmoe/layer.h"
#include "layer/experts/experts.h"
#include "weights/packer.h"

namespace fusedmoe {

/// Staged experts of an update in progress.
using StagedExperts = std::map<std::int64_t, std::vector<std::byte>>;

struct FusedMoE::Impl {
  explicit Impl(FusedMoEConfig c);
  ~Impl();

  FusedMoEConfig config;
  FusedMoE* self = nullptr;
  std::int64_t num_local_experts = 0;
  std::int64_t local_intermediate = 0;
  std::vector<std::int32_t> local_of_id;

  PlanReport report;
  std::unique_ptr<ExpertsKernel> kernel;
  std::int64_t chunk_tokens = 0;
  Executor* executor = nullptr;
  std::unique_ptr<Executor> own_executor;

  ExpertWeights weights;
  std::vector<std::atomic<bool>> loaded;
  std::unique_ptr<StagedExperts> staged;
  std::mutex staged_mutex;
  mutable std::atomic<std::int64_t> dropped_ids{0};

  const PlanReport& plan(const PlanOptions& options);
  /// The one place that lays the workspace out; with a counting arena it measures.
  struct Buffers;
  Buffers take_buffers(Arena& arena, std::int64_t num_tokens) const;
  void check_ready() const;
  void check_call(const TensorView& hidden, const TopKView& topk,
                  const MutableTensorView& out) const;
  /// Arguments have been checked; `memory` has report.workspace_bytes.
  void run(const TensorView& hidden, const TopKView& topk, const MutableTensorView& out,
           std::span<std::byte> memory) const;
  void run_chunk(const HiddenRows& hidden, const TopKView& topk, std::int64_t num_tokens,
                 std::byte* out, std::int64_t out_row_bytes, std::span<std::byte> memory) const;
};

/// "[layer] name: expected ..., got ..." with the layer's prefix or number.
[[noreturn]] void fail_argument(const FusedMoEConfig& config, const std::string& message);

}  // namespace fusedmoe
