// Names of activations, and the checks of their configuration.
#include "fusedmoe/activation.h"

#include <fmt/format.h>

namespace fusedmoe {
namespace {

struct NameRow {
  std::string_view name;
  Activation activation;
};

// Ours first: activation_name returns the first name of a value.
constexpr NameRow kNames[] = {
    {"silu", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_tanh", Activation::kGeluTanh},
    {"relu2", Activation::kRelu2},
    {"swigluoai", Activation::kSwigluOai},
    {"swiglu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"relu_squared", Activation::kRelu2},
};

}  // namespace

std::string_view activation_name(Activation activation) noexcept {
  for (const NameRow& row : kNames) {
    if (row.activation == activation) return row.name;
  }
  return "unknown";
}

std::optional<Activation> activation_from_name(std::string_view name) noexcept {
  for (const NameRow& row : kNames) {
    if (row.name == name) return row.activation;
  }
  return std::nullopt;
}

std::vector<std::string> validate(const ActivationConfig& config) {
  std::vector<std::string> problems;
  if (!(config.limit >= 0.0F)) {
    problems.push_back(fmt::format("activation limit: expected >= 0, got {}", config.limit));
  }
  const bool clamps = config.kind == Activation::kSilu || config.kind == Activation::kSwigluOai;
  if (config.limit > 0.0F && (!clamps || !config.is_gated)) {
    problems.push_back(fmt::format(
        "activation limit {}: only gated silu and swigluoai clamp, got "
        "{}{}",
        config.limit, config.is_gated ? "gated " : "non-gated ", activation_name(config.kind)));
  }
  if (config.kind == Activation::kSwigluOai && !config.is_gated) {
    problems.push_back("activation swigluoai: exists in a gated form only");
  }
  return problems;
}

}  // namespace fusedmoe
