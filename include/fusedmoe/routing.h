// Routing: router logits -> chosen experts and their weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusedmoe/tensor.h"

namespace fusedmoe {

enum class ScoringFunc {
  kSoftmax,       ///< softmax over all experts
  kSigmoid,       ///< 1 / (1 + e^-x)
  kSqrtSoftplus,  ///< sqrt(ln(1 + e^x))
  kTopKSoftmax,   ///< softmax over the chosen logits only (gpt-oss, Granite)
  kTopKSigmoid,   ///< chosen by logit, weight = sigmoid(logit) (Llama-4)
  kLogits,        ///< weight = the chosen logit itself
  kSparseMixer,   ///< Phi-3.5-MoE; top_k must be 2
};

/// What the sum of the chosen weights is divided by when `renormalize` is set.
enum class RenormalizeForm {
  kPlusEpsilon,  ///< sum + renormalize_epsilon
  kFloor,        ///< max(sum, renormalize_epsilon)
  kPNorm,        ///< (sum |w|^p)^(1/p), p = renormalize_p (DBRX)
};

/// `kOurs` follows docs/routing.md; `kSglang` restores the quirks that it lists, for comparison.
enum class RoutingCompat { kOurs, kSglang };

/// Everything that fixes a routing function. A plain value, validated once by `validate`.
struct TopKConfig {
  std::int64_t num_experts = 0;  ///< routed logical experts E, identity experts included
  std::int64_t top_k = 0;        ///< experts per token, fused shared experts included
  ScoringFunc scoring = ScoringFunc::kSoftmax;
  bool renormalize = true;
  RenormalizeForm renormalize_form = RenormalizeForm::kPlusEpsilon;
  float renormalize_epsilon = 0.0F;
  float renormalize_p = 1.0F;
  float routed_scaling_factor = 1.0F;
  std::int64_t num_expert_group = 1;  ///< G; 1 means ungrouped
  std::int64_t topk_group = 1;        ///< groups kept
  /// Added to the score for selection only, [num_experts] or empty. Must be finite.
  std::vector<float> correction_bias{};
  /// Multiplies the final weight of an expert, [num_experts] or empty (Gemma-4).
  std::vector<float> per_expert_scale{};
  float sparse_mixer_epsilon = 0.01F;
  float logit_soft_cap = 0.0F;  ///< c > 0: logits become c * tanh(x / c) first (Grok-1)
  std::int64_t num_fused_shared_experts = 0;
  /// Weight of each fused shared column; 1 in every published model.
  float fused_shared_weight = 1.0F;
  RoutingCompat compat = RoutingCompat::kOurs;
};

/// All problems of a configuration, in words; empty when it is sound.
std::vector<std::string> validate(const TopKConfig& config);

/// The result of routing in its standard format. The caller owns the memory.
struct TopKOutput {
  std::span<std::int32_t> topk_ids;  ///< [num_tokens, top_k] in [0, E + n_s), or -1 in padded rows
  std::span<float> topk_weights;     ///< [num_tokens, top_k]
  /// Rows that had no finite logit (weights 0). Added to, never reset.
  std::int64_t num_dead_rows = 0;
};

/// Read-only top-k, as `FusedMoE::forward` takes it; ids may be int32 or int64 (docs/routing.md).
struct TopKView {
  TensorView topk_ids;      ///< [num_tokens, top_k] I32 or I64
  TensorView topk_weights;  ///< [num_tokens, top_k] F32
};

struct RouteOptions {
  /// Rows at and beyond this count are padding: ids -1, weights 0. Negative: none.
  std::int64_t num_tokens_non_padded = -1;
  /// Fixed choice by token id (DeepSeek-V4 hash layers): table [vocab, k_r] I64 or I32, input_ids
  /// [num_tokens] I32 or I64. Weights still come from the scores of the chosen.
  TensorView hash_table{};
  TensorView input_ids{};
  /// logical -> physical id, [E] (static placement); empty = unchanged. Applied before padding.
  std::span<const std::int32_t> logical_to_physical{};
};

/// Selects `top_k` experts for each token and the weight of each.
///
/// @param router_logits [num_tokens, num_experts] F32, BF16 or F16, unit column stride.
/// @param out           both spans hold num_tokens * top_k elements. Columns are in selection order
///                      (key descending, id ascending), fused shared experts last.
/// @throws Error(kInvalidArgument) on a shape, dtype or configuration mismatch; nothing is written.
/// @note   Does not allocate for num_experts <= 4096. Rows are independent: the result of a row
///         never depends on other rows, threads or the instruction set.
/// @see    docs/routing.md; DeepSeek-V3 technical report, section on DeepSeekMoE.
void route(const TopKConfig& config, TensorView router_logits, TopKOutput& out,
           const RouteOptions& options = {});

/// FlashInfer's names for common routing functions.
enum class RoutingMethodType {
  kDefault,
  kRenormalize,
  kDeepSeekV3,
  kLlama4,
  kRenormalizeNaive,
  kTopK,
  kSigmoidRenorm,
  kMiniMax2,
  kSigmoid,
  kTopKSigmoid,
  kUnspecified,
};

std::string_view routing_method_name(RoutingMethodType method) noexcept;
std::optional<RoutingMethodType> routing_method_from_name(std::string_view name) noexcept;
/// The configuration that a method name stands for.
/// @throws Error(kInvalidArgument) for kUnspecified.
TopKConfig topk_config_for(RoutingMethodType method, std::int64_t num_experts, std::int64_t top_k);

/// Expert-sorted form of a top-k result: slots grouped by expert, ascending inside an expert.
struct ExpertSortedTopK {
  std::vector<std::int64_t> expert_offsets;  ///< [E + n_s + 1]
  std::vector<std::int64_t> gather_index;    ///< sorted position -> slot (token * top_k + j)
  std::vector<std::int64_t> scatter_index;   ///< slot -> sorted position, or -1 when absent
  std::vector<float> gate_scale;             ///< weight of each sorted position
};

/// @param num_experts experts that ids may name (E + n_s). Ids outside contribute nothing.
ExpertSortedTopK sort_by_expert(const TopKView& topk, std::int64_t num_experts);

/// Routing that a later kernel does itself: hidden states, logits and the function to apply.
struct BypassedTopK {
  TensorView hidden_states;
  TensorView router_logits;
  const TopKConfig* config = nullptr;
  RouteOptions options;
};

/// Runs the routing that a bypassed form postponed.
void materialize(const BypassedTopK& bypassed, TopKOutput& out);

}  // namespace fusedmoe
