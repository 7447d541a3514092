// What can be said about a described layer without loading it: words, sizes, work.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fusedmoe/layer.h"
#include "fusedmoe/model.h"

namespace fusedmoe::cli {

/// "softmax, top 8 of 128, renormalized".
std::string routing_words(const TopKConfig& routing);
/// "bf16", or "fp8_block (packed as f32)" when the file is quantized.
std::string format_words(const QuantAnnouncement& quant, DType weight_dtype);
/// "silu, gated".
std::string activation_words(const ActivationConfig& activation);

/// The configuration of the layer's routed experts on one rank.
FusedMoEConfig experts_config(const MoeLayerDescription& layer, DType hidden_dtype,
                              const ParallelLayout& parallel);

/// Weights of one expert that is `intermediate_size` wide.
std::int64_t expert_parameters(std::int64_t hidden_size, std::int64_t intermediate_size,
                               const ActivationConfig& activation);

/// Bytes of the weights and floating-point operations (a multiply-add is two) of one forward.
struct Work {
  double weight_bytes = 0.0;
  double flops = 0.0;
};

/// Work of the routed experts for these choices: every expert that is named is read once.
Work experts_work(const FusedMoEConfig& config, std::span<const std::int32_t> topk_ids);
/// The same for a whole block on one rank: router and shared experts too.
Work block_work(const MoeLayerDescription& layer, std::int64_t num_tokens,
                std::span<const std::int32_t> topk_ids);

}  // namespace fusedmoe::cli
