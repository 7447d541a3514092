// The whole MoE layer in double precision, as plainly as it can be written: what the library is
// compared with. It shares no code with the library; everything is an array of double.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace naive {

/// A floating-point format by its numbers: what rounding needs to know.
struct Format {
  int precision;     ///< significant bits, the hidden one included
  int min_exponent;  ///< of the smallest normal number, as in 2^min_exponent
  double largest;    ///< finite value
};
constexpr Format kF32{24, -126, 0x1.FFFFFEp127};
constexpr Format kBf16{8, -126, 0x1.FEp127};
constexpr Format kF16{11, -14, 65504.0};

/// Round to nearest, ties to even; subnormals and overflow to infinity as in IEEE 754.
double round_to(double value, const Format& format);

enum class Nonlinearity { kSilu, kGelu, kGeluTanh, kRelu2, kSwigluOai };

struct Activation {
  Nonlinearity kind = Nonlinearity::kSilu;
  bool is_gated = true;
  double alpha = 1.702;
  double limit = 0.0;  ///< 0: no clamp
};

double activate(const Activation& activation, double gate, double up);

/// One MLP of any width; matrices are row-major [out, in], absent parts are empty.
struct Expert {
  std::vector<double> w1, w3;  ///< [I, H]
  std::vector<double> w2;      ///< [H, I]
  std::vector<double> b1, b3, b2;
};

struct Layer {
  std::int64_t hidden_size = 0;
  Activation activation;
  std::vector<Expert> experts;            ///< routed, then fused shared ones
  std::int64_t num_identity_experts = 0;  ///< ids after `experts`
  bool weight_on_input = false;
  double factor = 1.0;
  std::optional<Expert> shared;  ///< every token passes it
  Activation shared_activation;
  std::vector<double> shared_gate;  ///< [H]; the shared result times sigmoid(x . gate)
  Format format = kF32;             ///< the hidden type
};

struct Batch {
  std::int64_t num_tokens = 0;
  std::int64_t top_k = 0;
  std::vector<double> hidden;     ///< [T, H]
  std::vector<std::int64_t> ids;  ///< [T, k]; an id outside every range contributes nothing
  std::vector<double> weights;    ///< [T, k]
};

/// Where the result is rounded to the layer's format.
enum class Oracle {
  kExact,    ///< A: the output only
  kRounded,  ///< B: activations, slots, shared result, output; none in between when it is f32
};

/// Weighted slots, not summed: [T, k, H]; absent ones are zero.
std::vector<double> slots(const Layer& layer, const Batch& batch, Oracle oracle);

/// The layer's output [T, H], the shared expert included when there is one.
std::vector<double> forward(const Layer& layer, const Batch& batch, Oracle oracle);

}  // namespace naive
