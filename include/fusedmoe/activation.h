// The nonlinearity between the two matrix products of an expert.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fusedmoe {

enum class Activation {
  kSilu,       ///< g * sigmoid(g)
  kGelu,       ///< erf form
  kGeluTanh,   ///< tanh form
  kRelu2,      ///< max(g, 0)^2
  kSwigluOai,  ///< min(g, L) * sigmoid(alpha * g') * (clamp(u, -L, L) + 1); gated only
};

/// gated: act(g) * u, else act(g). With `limit` > 0 on kSilu: g = min(g, L), u = clamp(u, -L, L)
/// first (DeepSeek-V4).
struct ActivationConfig {
  Activation kind = Activation::kSilu;
  bool is_gated = true;
  float alpha = 1.702F;  ///< kSwigluOai only (the seed's gemm1_alpha)
  float limit = 0.0F;    ///< clamp limit L; 0 = no clamp (the seed's gemm1_clamp_limit)
};

std::string_view activation_name(Activation activation) noexcept;
/// Understands our names and those of Hugging Face configs ("gelu_pytorch_tanh", "swiglu", ...).
std::optional<Activation> activation_from_name(std::string_view name) noexcept;
/// All problems of a configuration, in words; empty when it is sound.
std::vector<std::string> validate(const ActivationConfig& config);

}  // namespace fusedmoe
