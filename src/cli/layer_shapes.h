// The published layer shapes that benchmarks and documents speak of.
#pragma once

#include <span>
#include <string>

#include "fusedmoe/layer.h"

namespace fusedmoe::cli {

struct LayerShape {
  const char* name;
  std::int64_t hidden_size;
  std::int64_t intermediate_size;
  std::int64_t num_experts;
  std::int64_t top_k;
  bool has_bias;
  ActivationConfig activation;
};

std::span<const LayerShape> layer_shapes() noexcept;
/// @throws Error(kInvalidArgument) listing the names.
const LayerShape& layer_shape(const std::string& name);
/// "mixtral_8x7b|qwen3_30b_a3b|...".
std::string layer_shape_names();

}  // namespace fusedmoe::cli
