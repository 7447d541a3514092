// Random weights and random choices of experts, for measurements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusedmoe/layer.h"
#include "owned_tensor.h"

namespace fusedmoe::cli {

/// Fills every expert of a planned layer. All experts hold the same random numbers, packed at
/// addresses of their own: the values do not matter to time, the addresses do.
void load_random_experts(FusedMoE& layer, Executor& executor);

/// Numbers in (-scale, scale), the same for the same seed.
OwnedTensor random_tensor(DType dtype, const Shape& shape, float scale, std::uint64_t seed,
                          Executor& executor);

enum class RoutingPattern {
  kUniform,  ///< every expert alike
  kZipf,     ///< expert e with a chance proportional to 1 / (e + 1)
};

/// `top_k` different experts for each token, weights 1 / top_k.
struct RandomChoices {
  std::vector<std::int32_t> topk_ids;
  std::vector<float> topk_weights;
};
RandomChoices random_choices(RoutingPattern pattern, std::int64_t num_tokens,
                             std::int64_t num_experts, std::int64_t top_k, std::uint64_t seed);

}  // namespace fusedmoe::cli
