#include "layer_shapes.h"

#include <fmt/format.h>

#include "fusedmoe/error.h"

namespace fusedmoe::cli {
namespace {

constexpr ActivationConfig kSiluGated{};
constexpr ActivationConfig kGptOss{
    .kind = Activation::kSwigluOai, .is_gated = true, .alpha = 1.702F, .limit = 7.0F};

// Sizes: the models' config.json. deepseek_v3_slice holds 8 of 256 experts, as one of 32 ranks
// would, and gives each token 2 of them.
constexpr LayerShape kShapes[] = {
    // name, H, I, E, k, biases, activation
    {"qwen3_30b_a3b", 2048, 768, 128, 8, false, kSiluGated},
    {"gpt_oss_20b", 2880, 2880, 32, 4, true, kGptOss},
    {"mixtral_8x7b", 4096, 14336, 8, 2, false, kSiluGated},
    {"deepseek_v3_slice", 7168, 2048, 8, 2, false, kSiluGated},
};

}  // namespace

std::span<const LayerShape> layer_shapes() noexcept { return kShapes; }

std::string layer_shape_names() {
  std::string names;
  for (const LayerShape& shape : kShapes)
    names += (names.empty() ? "" : "|") + std::string(shape.name);
  return names;
}

const LayerShape& layer_shape(const std::string& name) {
  for (const LayerShape& shape : kShapes) {
    if (name == shape.name) return shape;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("[cli] shape: expected one of {}, got '{}', pass one of them",
                          layer_shape_names(), name));
}

}  // namespace fusedmoe::cli
