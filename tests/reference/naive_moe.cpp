#include "reference/naive_moe.h"

#include <algorithm>
#include <cmath>

namespace naive {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Rounding points of a run: inside the layer, and of its result.
struct Rounder {
  const Format& format;
  bool inside;

  Rounder(const Layer& layer, Oracle oracle)
      : format(layer.format),
        inside(oracle == Oracle::kRounded && layer.format.precision < kF32.precision) {}
  double intermediate(double value) const { return inside ? round_to(value, format) : value; }
};

double dot(const double* a, const double* b, std::int64_t size) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

double project(const std::vector<double>& weight, const std::vector<double>& bias, std::int64_t row,
               const double* x, std::int64_t size) {
  if (weight.empty()) return 0.0;
  const double value = dot(weight.data() + row * size, x, size);
  return bias.empty() ? value : value + bias[static_cast<std::size_t>(row)];
}

// W2 act(w_in (W13 x + b13)) + b2, not weighted and not rounded.
std::vector<double> run_expert(const Expert& expert, const Activation& activation, double w_in,
                               const double* x, std::int64_t hidden_size, const Rounder& rounder) {
  const auto width = static_cast<std::int64_t>(expert.w2.size()) / hidden_size;
  std::vector<double> inner(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < width; ++i) {
    const double gate = w_in * project(expert.w1, expert.b1, i, x, hidden_size);
    const double up = w_in * project(expert.w3, expert.b3, i, x, hidden_size);
    inner[static_cast<std::size_t>(i)] = rounder.intermediate(activate(activation, gate, up));
  }
  std::vector<double> result(static_cast<std::size_t>(hidden_size));
  for (std::int64_t h = 0; h < hidden_size; ++h) {
    result[static_cast<std::size_t>(h)] = project(expert.w2, expert.b2, h, inner.data(), width);
  }
  return result;
}

void add_shared(const Layer& layer, const Batch& batch, const Rounder& rounder,
                std::vector<double>& output) {
  const std::int64_t size = layer.hidden_size;
  for (std::int64_t t = 0; t < batch.num_tokens; ++t) {
    const double* x = batch.hidden.data() + t * size;
    const std::vector<double> shared =
        run_expert(*layer.shared, layer.shared_activation, 1.0, x, size, rounder);
    const double gate =
        layer.shared_gate.empty() ? 1.0 : sigmoid(dot(layer.shared_gate.data(), x, size));
    for (std::int64_t h = 0; h < size; ++h) {
      double s = rounder.intermediate(shared[static_cast<std::size_t>(h)]);
      if (!layer.shared_gate.empty()) s = rounder.intermediate(gate * s);
      output[static_cast<std::size_t>(t * size + h)] += s;
    }
  }
}

}  // namespace

double round_to(double value, const Format& format) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // value = m * 2^exponent, m in [0.5, 1)
  const int last_bit = std::max(exponent, format.min_exponent + 1) - format.precision;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -last_bit)), last_bit);
  return std::fabs(rounded) > format.largest ? std::copysign(HUGE_VAL, value) : rounded;
}

double activate(const Activation& activation, double gate, double up) {
  if (activation.limit > 0.0) {
    gate = std::min(gate, activation.limit);
    up = std::clamp(up, -activation.limit, activation.limit);
  }
  double value = 0.0;
  switch (activation.kind) {
    case Nonlinearity::kSilu:
      value = gate * sigmoid(gate);
      break;
    case Nonlinearity::kGelu:
      value = 0.5 * gate * (1.0 + std::erf(gate / std::sqrt(2.0)));
      break;
    case Nonlinearity::kGeluTanh:
      value = 0.5 * gate *
              (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) *
                               (gate + 0.044715 * gate * gate * gate)));
      break;
    case Nonlinearity::kRelu2:
      value = gate > 0.0 ? gate * gate : 0.0;
      break;
    case Nonlinearity::kSwigluOai:
      return gate * sigmoid(activation.alpha * gate) * (up + 1.0);
  }
  return activation.is_gated ? value * up : value;
}

std::vector<double> slots(const Layer& layer, const Batch& batch, Oracle oracle) {
  const Rounder rounder(layer, oracle);
  const std::int64_t size = layer.hidden_size;
  const auto num_experts = static_cast<std::int64_t>(layer.experts.size());
  std::vector<double> result(static_cast<std::size_t>(batch.num_tokens * batch.top_k * size));
  for (std::int64_t s = 0; s < batch.num_tokens * batch.top_k; ++s) {
    const std::int64_t id = batch.ids[static_cast<std::size_t>(s)];
    if (id < 0 || id >= num_experts + layer.num_identity_experts) continue;
    const double w = batch.weights[static_cast<std::size_t>(s)];
    const double* x = batch.hidden.data() + s / batch.top_k * size;
    const bool is_identity = id >= num_experts;
    const double w_in = layer.weight_on_input ? w : 1.0;
    const double w_out = layer.weight_on_input && !is_identity ? 1.0 : w;
    const std::vector<double> row = is_identity
                                        ? std::vector<double>(x, x + size)
                                        : run_expert(layer.experts[static_cast<std::size_t>(id)],
                                                     layer.activation, w_in, x, size, rounder);
    for (std::int64_t h = 0; h < size; ++h) {
      result[static_cast<std::size_t>(s * size + h)] =
          rounder.intermediate(w_out * row[static_cast<std::size_t>(h)]);
    }
  }
  return result;
}

std::vector<double> forward(const Layer& layer, const Batch& batch, Oracle oracle) {
  const Rounder rounder(layer, oracle);
  const std::int64_t size = layer.hidden_size;
  const std::vector<double> rows = slots(layer, batch, oracle);
  std::vector<double> output(static_cast<std::size_t>(batch.num_tokens * size));
  for (std::int64_t t = 0; t < batch.num_tokens; ++t) {
    for (std::int64_t h = 0; h < size; ++h) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < batch.top_k; ++j) {
        sum += rows[static_cast<std::size_t>((t * batch.top_k + j) * size + h)];
      }
      output[static_cast<std::size_t>(t * size + h)] = rounder.intermediate(layer.factor * sum);
    }
  }
  if (layer.shared.has_value()) add_shared(layer, batch, rounder, output);
  for (double& value : output) value = round_to(value, layer.format);
  return output;
}

}  // namespace naive
