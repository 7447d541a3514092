// FusedMoE: the routed experts of one layer on one rank. MoeBlock: a whole MoE block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusedmoe/activation.h"
#include "fusedmoe/executor.h"
#include "fusedmoe/kernels.h"
#include "fusedmoe/model.h"
#include "fusedmoe/parallel.h"
#include "fusedmoe/routing.h"
#include "fusedmoe/tensor.h"
#include "fusedmoe/workspace.h"

namespace fusedmoe {

/// Everything that fixes a layer; the names are the field's (docs/sglang.md maps them).
struct FusedMoEConfig {
  std::int64_t num_experts = 0;  ///< routed logical experts with weights
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  ///< of the whole model, before any tensor-parallel split
  std::int64_t top_k = 0;              ///< slots per token, fused shared experts included
  int layer_id = 0;                    ///< for find_layer; negative: not registered
  std::string prefix;                  ///< for messages
  std::int64_t num_fused_shared_experts = 0;  ///< ids E ... E + n_s - 1, same width as the routed
  std::int64_t num_identity_experts = 0;      ///< the ids after those return their input
  DType weight_dtype = DType::kBF16;          ///< the seed's params_dtype
  DType hidden_dtype = DType::kBF16;          ///< of input and output; fixes the rounding points
  ActivationConfig activation;
  bool has_bias = false;  ///< the seed's with_bias
  bool apply_router_weight_on_input = false;
  bool inplace = false;     ///< forward may be called with out == hidden_states
  bool no_combine = false;  ///< output [num_tokens, top_k, hidden_size], weighted, not summed
  float routed_scaling_factor = 1.0F;  ///< applied in combine; for foreign top-k only
  bool reduce_results = false;         ///< sum over ranks; needs a communicator when ranks > 1
  ParallelLayout parallel;
};

/// All problems of a configuration, in words; empty when it is sound.
std::vector<std::string> validate(const FusedMoEConfig& config);

struct PlanOptions {
  std::int64_t max_num_tokens = 1;
  /// Threads to run on; must outlive the layer. nullptr: the layer makes a pool of all usable
  /// cores.
  Executor* executor = nullptr;
  std::string kernel{};  ///< force a kernel or an arithmetic by name; "" = best
};

/// What `plan()` decided, and why.
struct PlanReport {
  std::string kernel;
  std::string arithmetic;
  std::vector<KernelChoice> considered;  ///< the whole table, best first, with reasons
  std::size_t workspace_bytes = 0;       ///< for max_num_tokens, whatever the routing
  std::size_t weight_bytes = 0;          ///< packed experts of this rank
  std::int64_t max_num_tokens = 0;
  int num_threads = 0;
  std::vector<std::string> notes;  ///< who applies which factor, padding, paths: one line each
};

/// One expert's weights in memory, of this rank's slice. Absent parts have data == nullptr.
/// b2 is added once over the tensor-parallel ranks: pass zeros where tp_rank > 0.
struct ExpertTensors {
  MatrixView w1;  ///< [intermediate, hidden] gate, or the input projection of a non-gated expert
  MatrixView w3;  ///< [intermediate, hidden] up
  MatrixView w2;  ///< [hidden, intermediate] down
  std::span<const float> b1{}, b3{}, b2{};
};

/// Is a layer's result complete?
enum class ResultState { kReduced, kPartial };

/// The routed experts of one layer on one rank: dispatch, expert MLPs, combine.
///
/// Life: construct -> plan -> load (every local expert) -> forward, any number of times.
/// A planned and loaded layer may be used from any thread, one forward at a time per workspace;
/// forwards on one executor take turns.
class FusedMoE {
 public:
  /// @throws Error(kInvalidArgument) listing every problem of the configuration.
  explicit FusedMoE(FusedMoEConfig config);
  FusedMoE(FusedMoE&&) noexcept;
  FusedMoE& operator=(FusedMoE&&) noexcept;
  ~FusedMoE();

  const FusedMoEConfig& config() const noexcept;
  std::int64_t num_local_experts() const noexcept;  ///< fused shared experts included
  std::int64_t intermediate_size_per_partition() const noexcept;

  /// Chooses the kernel, allocates the packed weights, states the workspace. May be called again
  /// with another max_num_tokens; changing the kernel of a loaded layer is an error.
  const PlanReport& plan(const PlanOptions& options);
  const PlanReport& plan_report() const;

  /// Packs one local expert. Any order, any thread (distinct experts at once).
  /// @throws Error(kInvalidArgument) on shapes or dtypes that differ from the configuration, or
  /// when
  ///         the expert is loaded already.
  void load_expert(std::int64_t local_expert, const ExpertTensors& tensors);
  /// Local experts that are not loaded yet, ascending.
  std::vector<std::int64_t> missing_experts() const;

  /// Replaces weights of a loaded layer: between begin and commit `load_expert` fills a staging
  /// copy (`num_bytes` of host memory for the touched experts); commit writes them into place, at
  /// unchanged addresses; abort drops them. Bits after commit are those of a fresh load.
  void begin_update();
  void commit_update();
  void abort_update() noexcept;

  /// Runs the layer.
  ///
  /// @param hidden_states [num_tokens, hidden_size] of config().hidden_dtype; rows may be strided.
  /// @param topk          ids are logical. An id outside [0, E + n_s + identity), or of an expert
  /// on
  ///                      another rank, contributes nothing and is counted (`num_dropped_ids`).
  /// @param out           [num_tokens, hidden_size], or [num_tokens, top_k, hidden_size] with
  ///                      no_combine; never aliases the input unless `inplace`.
  /// @throws Error(kInvalidArgument) before anything is written. Never allocates.
  ResultState forward(TensorView hidden_states, const TopKView& topk, MutableTensorView out,
                      Workspace& workspace) const;

  /// Ids outside every expert range seen by forwards so far (-1 included).
  std::int64_t num_dropped_ids() const noexcept;
  /// Checksum of the packed weights (FNV-1a over slots), for tests and relocation.
  std::uint64_t weights_checksum() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  friend class MoeBlock;
};

/// Finds a live layer by its layer_id (nullptr when there is none), for graph segments that name
/// layers by number. Layers register themselves on construction; the latest wins.
FusedMoE* find_layer(int layer_id) noexcept;

/// Results of a block beside its output; every span may be empty.
struct MoeBlockOutputs {
  std::span<float> router_logits;             ///< [num_tokens, E]
  std::span<std::int32_t> topk_ids;           ///< [num_tokens, top_k]
  std::span<float> topk_weights;              ///< [num_tokens, top_k]
  std::span<std::int64_t> tokens_per_expert;  ///< [E], overwritten
};

/// Inputs of a block; only `hidden_states` is required.
struct MoeBlockInputs {
  TensorView hidden_states{};      ///< [num_tokens, hidden_size]
  TensorView router_logits{};      ///< replaces the router's product
  std::optional<TopKView> topk{};  ///< replaces the router altogether
  TensorView input_ids{};          ///< [num_tokens], hash-routed layers only
  std::int64_t num_tokens_non_padded = -1;
};

/// What loading did: the ledger in numbers.
struct LoadReport {
  std::int64_t cells = 0;  ///< (parameter, local expert, shard) cells filled, each once
  std::int64_t skipped_other_rank = 0;  ///< tensors of experts that live elsewhere
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_packed = 0;
  std::uint64_t peak_staging_bytes = 0;  ///< largest buffer beside the result, all threads together
  std::vector<std::string> missing;      ///< tensor names
  std::vector<std::string> unused;       ///< tensors below the layer's prefixes that nothing used
  std::vector<std::string> warnings;
  double seconds = 0.0;
};

struct LoadOptions {
  /// Called from loading threads with bytes done and bytes in all; may be empty.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
  Executor* executor = nullptr;  ///< reads in parallel when given
  /// Receives the ledger also when `load` throws for what it lists; may be nullptr.
  LoadReport* report = nullptr;
};

/// A whole MoE block of a checkpoint: router, routed experts, shared experts and their gate.
class MoeBlock {
 public:
  /// @param hidden_dtype arithmetic: F32 rounds nowhere, BF16 and F16 at the points of
  ///                     docs/architecture.md.
  MoeBlock(const MoeLayerDescription& description, DType hidden_dtype,
           const ParallelLayout& parallel = {});
  MoeBlock(MoeBlock&&) noexcept;
  MoeBlock& operator=(MoeBlock&&) noexcept;
  ~MoeBlock();

  const MoeLayerDescription& description() const noexcept;
  const PlanReport& plan(const PlanOptions& options);
  const PlanReport& plan_report() const;

  /// Loads every tensor of the block strictly.
  /// @throws Error(kCorruptData) with everything that is missing, unused, duplicated or misshapen.
  LoadReport load(const Checkpoint& checkpoint, const LoadOptions& options = {});

  /// @param out [num_tokens, hidden_size] of the block's hidden dtype.
  ResultState forward(const MoeBlockInputs& inputs, MutableTensorView out, Workspace& workspace,
                      const MoeBlockOutputs& outputs = {}) const;

  /// The routed experts alone; after `load`.
  FusedMoE& experts() noexcept;
  /// Rows whose logits had no finite number, of all forwards so far; their routed weights were 0.
  std::int64_t num_dead_rows() const noexcept;
  /// False: `forward` leaves the shared experts out (for comparisons).
  void set_shared_experts_enabled(bool enabled) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusedmoe
