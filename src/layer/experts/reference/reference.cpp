#include "layer/experts/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace fusedmoe {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Rows as they are in memory, unpadded: [w1][w3][w2] in the weight dtype, then f32 biases.
struct PlainLayout {
  std::int64_t h = 0, i = 0;
  DType dtype = DType::kF32;
  bool is_gated = true, has_bias = false;

  std::int64_t weight_bytes() const { return dtype_bits(dtype) / 8; }
  std::int64_t num_weights() const { return h * i * (is_gated ? 3 : 2); }
  std::int64_t bias_offset() const { return (num_weights() * weight_bytes() + 3) / 4 * 4; }
  std::size_t slot_bytes() const {
    const std::int64_t biases = has_bias ? i * (is_gated ? 2 : 1) + h : 0;
    return static_cast<std::size_t>((bias_offset() + biases * 4 + 63) / 64 * 64);
  }
};

class PlainPacker final : public Packer {
 public:
  explicit PlainPacker(const PlainLayout& layout) : layout_(layout) {}
  std::size_t slot_bytes() const noexcept override { return layout_.slot_bytes(); }

  void pack(const ExpertTensors& tensors, std::byte* slot) const override {
    std::memset(slot, 0, slot_bytes());
    std::int64_t next = 0;
    copy(tensors.w1, slot, next);
    if (layout_.is_gated) copy(tensors.w3, slot, next);
    copy(tensors.w2, slot, next);
    if (!layout_.has_bias) return;
    auto* bias = reinterpret_cast<float*>(slot + layout_.bias_offset());
    bias = std::copy(tensors.b1.begin(), tensors.b1.end(), bias);
    if (layout_.is_gated) bias = std::copy(tensors.b3.begin(), tensors.b3.end(), bias);
    std::copy(tensors.b2.begin(), tensors.b2.end(), bias);
  }

 private:
  void copy(const MatrixView& m, std::byte* slot, std::int64_t& next) const {
    for (std::int64_t r = 0; r < m.rows; ++r) {
      for (std::int64_t c = 0; c < m.cols; ++c) {
        const std::int64_t from = r * m.row_stride + c * m.col_stride;
        store_from_f32(slot, layout_.dtype, next++, load_as_f32(m.data, m.dtype, from));
      }
    }
  }

  PlainLayout layout_;
};

class ReferenceKernel final : public ExpertsKernel {
 public:
  explicit ReferenceKernel(const ExpertsProblem& problem)
      : problem_(problem),
        layout_{problem.hidden_size, problem.intermediate_size, problem.weight_dtype,
                problem.activation.is_gated, problem.has_bias},
        packer_(layout_) {}

  const Packer& packer() const noexcept override { return packer_; }

  void take_scratch(Arena& arena, std::int64_t, std::int64_t, int num_threads) const override {
    arena.take<float>(layout_.i * num_threads);
  }

  void run(const ExpertsCall& call, Arena scratch, Executor& executor) const override {
    struct Context {
      const ReferenceKernel* kernel;
      const ExpertsCall* call;
      float* inner;
      int num_threads;
    } context{this, &call, scratch.take<float>(layout_.i * executor.num_threads()).data(),
              executor.num_threads()};
    executor.run(
        [](void* raw, int thread) {
          const auto& c = *static_cast<Context*>(raw);
          c.kernel->run_thread(*c.call, c.inner + c.kernel->layout_.i * thread, thread,
                               c.num_threads);
        },
        &context);
  }

  void combine(const CombineCall& call, Executor&) const override {
    const ExpertBatch& batch = *call.batch;
    for (std::int64_t t = 0; t < batch.num_tokens; ++t) {
      std::byte* out = call.out + t * call.out_row_stride_bytes;
      for (std::int64_t c = 0; c < layout_.h; ++c) {
        float sum = 0.0F;  // in f32 as everywhere: with no slot before it, +0
        for (SlotIndex s = t * batch.top_k; s < (t + 1) * batch.top_k; ++s) {
          if (batch.slot_expert[static_cast<std::size_t>(s)] == kAbsentSlot) continue;
          sum += load_as_f32(call.slots.row(s), call.slots.dtype, c);
        }
        if (call.factor != 1.0F) sum *= call.factor;
        store_from_f32(out, call.slots.dtype, c, sum);
      }
    }
  }

  std::string describe() const override { return "plain loops in double precision"; }

 private:
  double weight(const std::byte* slot, std::int64_t index) const {
    return static_cast<double>(load_as_f32(slot, layout_.dtype, index));
  }

  void run_thread(const ExpertsCall& call, float* inner, int thread, int num_threads) const {
    const ExpertBatch& batch = *call.batch;
    for (std::size_t e = 0; e + 1 < batch.expert_offsets.size(); ++e) {
      for (std::int64_t row = batch.expert_offsets[e]; row < batch.expert_offsets[e + 1]; ++row) {
        if (row % num_threads != thread) continue;
        const SlotIndex slot = batch.row_slot[static_cast<std::size_t>(row)];
        run_row(call, call.weights->slot(static_cast<std::int64_t>(e)), slot, inner);
      }
    }
  }

  void run_row(const ExpertsCall& call, const std::byte* expert, SlotIndex slot,
               float* inner) const {
    const std::byte* x = call.hidden.row(slot / call.batch->top_k);
    const double w = static_cast<double>(call.topk_weights[slot]);
    const double w_in = call.weight_on_input ? w : 1.0;
    const auto* bias = reinterpret_cast<const float*>(expert + layout_.bias_offset());
    const std::int64_t second = layout_.h * layout_.i;
    const std::int64_t down = second * (layout_.is_gated ? 2 : 1);
    for (std::int64_t n = 0; n < layout_.i; ++n) {
      double g = dot(expert, n * layout_.h, x, call.hidden.dtype);
      double u = layout_.is_gated ? dot(expert, second + n * layout_.h, x, call.hidden.dtype) : 0.0;
      if (layout_.has_bias) {
        g += static_cast<double>(bias[n]);
        if (layout_.is_gated) u += static_cast<double>(bias[layout_.i + n]);
      }
      const double a = activate_reference(problem_.activation, w_in * g, w_in * u);
      inner[n] = round_to(static_cast<float>(a), problem_.hidden_dtype);
    }
    const float* b2 = bias + layout_.i * (layout_.is_gated ? 2 : 1);
    for (std::int64_t c = 0; c < layout_.h; ++c) {
      double value = 0.0;
      for (std::int64_t k = 0; k < layout_.i; ++k) {
        value += weight(expert, down + c * layout_.i + k) * static_cast<double>(inner[k]);
      }
      if (layout_.has_bias) value += static_cast<double>(b2[c]);
      if (!call.weight_on_input) value *= w;
      store_from_f32(call.slots.row(slot), call.slots.dtype, c, static_cast<float>(value));
    }
  }

  double dot(const std::byte* expert, std::int64_t offset, const std::byte* x, DType dtype) const {
    double sum = 0.0;
    for (std::int64_t k = 0; k < layout_.h; ++k) {
      sum += weight(expert, offset + k) * static_cast<double>(load_as_f32(x, dtype, k));
    }
    return sum;
  }

  ExpertsProblem problem_;
  PlainLayout layout_;
  PlainPacker packer_;
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

double activate_reference(const ActivationConfig& config, double g, double u) {
  if (config.limit > 0.0F && config.is_gated) {
    const double limit = static_cast<double>(config.limit);
    g = g > limit ? limit : g;
    u = u > limit ? limit : u < -limit ? -limit : u;
  }
  double act = 0.0;
  switch (config.kind) {
    case Activation::kSilu:
      act = g == -HUGE_VAL ? -0.0 : g * sigmoid(g);
      break;
    case Activation::kGelu:
      act = 0.5 * g * (1.0 + std::erf(g / std::sqrt(2.0)));
      break;
    case Activation::kGeluTanh:
      act = 0.5 * g * (1.0 + std::tanh(std::sqrt(2.0 / kPi) * (g + 0.044715 * g * g * g)));
      break;
    case Activation::kRelu2:
      act = g > 0.0 ? g * g : (g != g ? g : 0.0);
      break;
    case Activation::kSwigluOai:
      return g * sigmoid(static_cast<double>(config.alpha) * g) * (u + 1.0);
  }
  return config.is_gated ? act * u : act;
}

std::unique_ptr<ExpertsKernel> make_reference(const ExpertsProblem& problem) {
  return std::make_unique<ReferenceKernel>(problem);
}

}  // namespace fusedmoe
