#include "layer_facts.h"

#include <fmt/format.h>

#include <vector>

#include "options.h"

namespace fusedmoe::cli {
namespace {

std::string_view scoring_word(ScoringFunc scoring) {
  switch (scoring) {
    case ScoringFunc::kSoftmax:
      return "softmax";
    case ScoringFunc::kSigmoid:
      return "sigmoid";
    case ScoringFunc::kSqrtSoftplus:
      return "sqrt_softplus";
    case ScoringFunc::kTopKSoftmax:
      return "topk_softmax";
    case ScoringFunc::kTopKSigmoid:
      return "topk_sigmoid";
    case ScoringFunc::kLogits:
      return "logits";
    case ScoringFunc::kSparseMixer:
      return "sparse_mixer";
  }
  return "unknown";
}

double bytes_of(DType dtype) { return dtype_bits(dtype) / 8.0; }

}  // namespace

std::string routing_words(const TopKConfig& routing) {
  std::string words = fmt::format("{}, top {} of {}", scoring_word(routing.scoring), routing.top_k,
                                  routing.num_experts);
  if (routing.num_expert_group > 1) {
    words += fmt::format(", {} of {} groups", routing.topk_group, routing.num_expert_group);
  }
  if (routing.renormalize) words += ", renormalized";
  if (routing.routed_scaling_factor != 1.0F) {
    words += fmt::format(", x {}", routing.routed_scaling_factor);
  }
  return words;
}

std::string format_words(const QuantAnnouncement& quant, DType weight_dtype) {
  const std::string packed = activation_dtype_word(weight_dtype);
  if (!quant.scheme.is_quantized()) return packed;
  return fmt::format("{} (packed as {})", quant.scheme.name, packed);
}

std::string activation_words(const ActivationConfig& activation) {
  std::string words(activation_name(activation.kind));
  words += activation.is_gated ? ", gated" : ", not gated";
  if (activation.limit > 0.0F) words += fmt::format(", limit {}", activation.limit);
  return words;
}

FusedMoEConfig experts_config(const MoeLayerDescription& layer, DType hidden_dtype,
                              const ParallelLayout& parallel) {
  FusedMoEConfig config;
  config.num_experts = layer.num_experts;
  config.hidden_size = layer.hidden_size;
  config.intermediate_size = layer.intermediate_size;
  config.top_k = layer.routing.top_k;
  config.layer_id = layer.layer_index;
  config.prefix = layer.prefix;
  config.num_fused_shared_experts = layer.routing.num_fused_shared_experts;
  config.num_identity_experts = layer.num_identity_experts;
  config.weight_dtype = layer.weight_dtype;
  config.hidden_dtype = hidden_dtype;
  config.activation = layer.activation;
  config.has_bias = layer.has_expert_bias;
  config.apply_router_weight_on_input = layer.apply_router_weight_on_input;
  config.parallel = parallel;
  return config;
}

std::int64_t expert_parameters(std::int64_t hidden_size, std::int64_t intermediate_size,
                               const ActivationConfig& activation) {
  return (activation.is_gated ? 3 : 2) * hidden_size * intermediate_size;
}

Work experts_work(const FusedMoEConfig& config, std::span<const std::int32_t> topk_ids) {
  const std::int64_t num_weighted = config.num_experts + config.num_fused_shared_experts;
  std::vector<bool> is_touched(static_cast<std::size_t>(num_weighted), false);
  double rows = 0.0;
  double experts = 0.0;
  for (const std::int32_t id : topk_ids) {
    if (id < 0 || id >= num_weighted) continue;  // identity experts have no weights
    rows += 1.0;
    if (is_touched[static_cast<std::size_t>(id)]) continue;
    is_touched[static_cast<std::size_t>(id)] = true;
    experts += 1.0;
  }
  const auto parameters = static_cast<double>(
      expert_parameters(config.hidden_size, config.intermediate_size, config.activation));
  return {.weight_bytes = experts * parameters * bytes_of(config.weight_dtype),
          .flops = 2.0 * rows * parameters};
}

Work block_work(const MoeLayerDescription& layer, std::int64_t num_tokens,
                std::span<const std::int32_t> topk_ids) {
  Work work = experts_work(experts_config(layer, DType::kF32, {}), topk_ids);
  const SharedExpertDescription& shared = layer.shared;
  const auto shared_parameters = static_cast<double>(
      expert_parameters(layer.hidden_size, shared.intermediate_size, shared.activation));
  const auto router_parameters = static_cast<double>(layer.routing.num_experts * layer.hidden_size);
  work.weight_bytes += shared_parameters * bytes_of(shared.weight_dtype);
  work.weight_bytes += router_parameters * bytes_of(DType::kF32);
  work.flops += 2.0 * static_cast<double>(num_tokens) * (shared_parameters + router_parameters);
  return work;
}

}  // namespace fusedmoe::cli
