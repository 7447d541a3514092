// The forward of MoeBlock: router -> routing -> routed experts (+ shared expert).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "arch/lane_math.h"
#include "arch/simd/scalar.h"
#include "base/half.h"
#include "layer/moe_block_impl.h"
#include "layer/parallel_rows.h"

namespace fusedmoe {
namespace {

std::int64_t bytes_of(DType dtype) { return dtype_bits(dtype) / 8; }

// rmsnorm(x) * scale in f32; the sum of squares is one chain, so a row depends on itself only.
void normalize_row(const std::byte* x, DType dtype, std::span<const float> scale, float epsilon,
                   float* out) {
  const auto size = static_cast<std::int64_t>(scale.size());
  float squares = 0.0F;
  for (std::int64_t c = 0; c < size; ++c) {
    const float v = load_as_f32(x, dtype, c);
    squares = std::fma(v, v, squares);
  }
  const float inverse = 1.0F / std::sqrt(squares / static_cast<float>(size) + epsilon);
  for (std::int64_t c = 0; c < size; ++c) {
    out[c] = load_as_f32(x, dtype, c) * inverse * scale[static_cast<std::size_t>(c)];
  }
}

// What the caller asked for beside the output.
void copy_outputs(const TopKConfig& routing, const TensorView& logits, const TopKView& topk,
                  std::int64_t t, const MoeBlockOutputs& outputs) {
  const std::int64_t stride = logits.row_stride == 0 ? routing.num_experts : logits.row_stride;
  for (std::size_t i = 0; i < outputs.router_logits.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / routing.num_experts;
    const auto column = static_cast<std::int64_t>(i) % routing.num_experts;
    outputs.router_logits[i] = load_as_f32(logits.data, logits.dtype, row * stride + column);
  }
  const bool wide = topk.topk_ids.dtype == DType::kI64;
  const auto id_at = [&](std::int64_t s) {
    return wide ? static_cast<const std::int64_t*>(topk.topk_ids.data)[s]
                : std::int64_t{static_cast<const std::int32_t*>(topk.topk_ids.data)[s]};
  };
  std::fill(outputs.tokens_per_expert.begin(), outputs.tokens_per_expert.end(), 0);
  for (std::int64_t s = 0; s < t * routing.top_k; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t id = id_at(s);
    if (!outputs.topk_ids.empty()) outputs.topk_ids[at] = static_cast<std::int32_t>(id);
    if (!outputs.topk_weights.empty()) {
      outputs.topk_weights[at] = static_cast<const float*>(topk.topk_weights.data)[s];
    }
    if (!outputs.tokens_per_expert.empty() && id >= 0 && id < routing.num_experts) {
      ++outputs.tokens_per_expert[static_cast<std::size_t>(id)];
    }
  }
}

}  // namespace

struct MoeBlock::Impl::Buffers {
  std::span<float> logits;          ///< [T, E]
  std::span<std::int32_t> ids;      ///< [T, k]
  std::span<float> weights;         ///< [T, k]
  std::span<float> router_input;    ///< [T, H], normalized inputs
  std::span<float> shared_weights;  ///< [T]
  std::span<std::int32_t> shared_ids;
  std::byte* shared_out = nullptr;  ///< [T, H] in the hidden dtype
  Arena scratch;                    ///< of router, experts and shared expert, one after the other
};

MoeBlock::Impl::Buffers MoeBlock::Impl::take_buffers(Arena& arena, std::int64_t t) const {
  Buffers b;
  const std::int64_t h = description.hidden_size;
  b.logits = arena.take<float>(t * routing.num_experts);
  b.ids = arena.take<std::int32_t>(t * routing.top_k);
  b.weights = arena.take<float>(t * routing.top_k);
  if (description.router.normalizes_input) b.router_input = arena.take<float>(t * h);
  if (shared != nullptr) {
    b.shared_weights = arena.take<float>(t);
    b.shared_ids = arena.take<std::int32_t>(t);
    b.shared_out = arena.take_bytes(t * h * bytes_of(hidden_dtype));
  }
  b.scratch = arena;
  Arena linear_scratch;
  Linear::take_scratch(linear_scratch, h, t);
  std::size_t most = std::max(linear_scratch.num_bytes(), experts.plan_report().workspace_bytes);
  if (shared != nullptr) most = std::max(most, shared->plan_report().workspace_bytes);
  arena.take_bytes(static_cast<std::int64_t>(most));
  return b;
}

std::size_t MoeBlock::Impl::measure(std::int64_t num_tokens) const {
  Arena arena;
  take_buffers(arena, num_tokens);
  return arena.num_bytes();
}

void MoeBlock::Impl::check_inputs(const MoeBlockInputs& in, const MutableTensorView& out,
                                  const MoeBlockOutputs& outputs) const {
  const FusedMoEConfig& c = experts.config();
  const std::int64_t h = description.hidden_size;
  const TensorView& x = in.hidden_states;
  if (!loaded) fail_argument(c, "forward: call load() first");
  if (x.shape.rank() != 2 || x.shape[1] != h || x.dtype != hidden_dtype) {
    fail_argument(c,
                  fmt::format("hidden_states: expected [num_tokens, {}] {}, got {} {}", h,
                              dtype_name(hidden_dtype), x.shape.to_string(), dtype_name(x.dtype)));
  }
  const std::int64_t t = x.shape[0];
  if (t > report.max_num_tokens) {
    fail_argument(c, fmt::format("hidden_states: planned for at most {} tokens, got {}; plan again "
                                 "with more",
                                 report.max_num_tokens, t));
  }
  const Shape logits{t, routing.num_experts};
  const TensorView& given = in.router_logits;
  if (given.data != nullptr && (given.shape != logits || !is_activation_dtype(given.dtype))) {
    fail_argument(
        c, fmt::format("router_logits: expected {} F32, BF16 or F16, got {} {}", logits.to_string(),
                       given.shape.to_string(), dtype_name(given.dtype)));
  }
  const bool routes = !in.topk.has_value();
  const bool ids_ok = in.input_ids.dtype == DType::kI32 || in.input_ids.dtype == DType::kI64;
  if (routes && !hash_table.empty() && t > 0 &&
      (in.input_ids.data == nullptr || in.input_ids.shape != Shape{t} || !ids_ok)) {
    fail_argument(c, fmt::format("input_ids: this layer routes by token id: expected [{}] I32 or "
                                 "I64, got {}",
                                 t,
                                 in.input_ids.data == nullptr ? std::string("nothing")
                                                              : in.input_ids.shape.to_string()));
  }
  const auto check_size = [&](const char* name, std::size_t got, std::int64_t wanted) {
    if (got != 0 && got != static_cast<std::size_t>(wanted)) {
      fail_argument(c, fmt::format("{}: expected {} elements, got {}", name, wanted, got));
    }
  };
  check_size("router_logits of the result", outputs.router_logits.size(), t * routing.num_experts);
  check_size("topk_ids of the result", outputs.topk_ids.size(), t * routing.top_k);
  check_size("topk_weights of the result", outputs.topk_weights.size(), t * routing.top_k);
  check_size("tokens_per_expert", outputs.tokens_per_expert.size(), routing.num_experts);
  if (out.data != nullptr && out.data == x.data) {
    fail_argument(c,
                  "out: a block reads hidden_states until its last step, so it cannot be the "
                  "same memory");
  }
}

void MoeBlock::Impl::compute_logits(const HiddenRows& x, std::int64_t t, Buffers& b) const {
  if (!description.router.normalizes_input) {
    router.run(x, t, b.logits.data(), b.scratch, *executor);
    return;
  }
  const std::int64_t h = description.hidden_size;
  parallel_rows(*executor, t, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      normalize_row(x.row(i), x.dtype, router_input_scale, description.router.norm_epsilon,
                    b.router_input.data() + i * h);
    }
  });
  const HiddenRows normalized{reinterpret_cast<const std::byte*>(b.router_input.data()),
                              DType::kF32, h * 4};
  router.run(normalized, t, b.logits.data(), b.scratch, *executor);
}

void MoeBlock::Impl::route_rows(const MoeBlockInputs& in, std::int64_t t, const TensorView& logits,
                                Buffers& b) const {
  const std::int64_t k = routing.top_k;
  const std::int64_t row = logits.row_stride == 0 ? routing.num_experts : logits.row_stride;
  parallel_rows(*executor, t, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t count = last - first;
    TensorView part = logits;
    part.data = static_cast<const std::byte*>(logits.data) + first * row * bytes_of(logits.dtype);
    part.shape = Shape{count, routing.num_experts};
    RouteOptions options;
    if (in.num_tokens_non_padded >= 0) {
      options.num_tokens_non_padded =
          std::clamp<std::int64_t>(in.num_tokens_non_padded - first, 0, count);
    }
    if (!hash_table.empty()) {
      options.hash_table = {hash_table.data(), DType::kI64, Shape{vocab_size, k}};
      options.input_ids = in.input_ids;
      options.input_ids.data =
          static_cast<const std::byte*>(in.input_ids.data) + first * bytes_of(in.input_ids.dtype);
      options.input_ids.shape = Shape{count};
    }
    TopKOutput out{
        b.ids.subspan(static_cast<std::size_t>(first * k), static_cast<std::size_t>(count * k)),
        b.weights.subspan(static_cast<std::size_t>(first * k),
                          static_cast<std::size_t>(count * k))};
    route(routing, part, out, options);
    if (out.num_dead_rows > 0) dead_rows += out.num_dead_rows;
  });
}

void MoeBlock::Impl::add_shared(const TensorView& hidden, const MutableTensorView& out,
                                Buffers& b) const {
  const std::int64_t t = hidden.shape[0];
  const std::int64_t h = description.hidden_size;
  const std::int64_t bytes = bytes_of(hidden_dtype);
  const HiddenRows x{static_cast<const std::byte*>(hidden.data), hidden.dtype,
                     (hidden.row_stride == 0 ? h : hidden.row_stride) * bytes};
  std::fill_n(b.shared_ids.begin(), t, 0);
  std::fill_n(b.shared_weights.begin(), t, 1.0F);
  if (shared_gate.num_outputs() > 0) {
    shared_gate.run(x, t, b.shared_weights.data(), b.scratch, *executor);
    for (std::int64_t i = 0; i < t; ++i) {
      float& w = b.shared_weights[static_cast<std::size_t>(i)];
      w = sigmoid_f32<ScalarLanes>(w);
    }
  }
  const TopKView topk{{b.shared_ids.data(), DType::kI32, Shape{t, 1}},
                      {b.shared_weights.data(), DType::kF32, Shape{t, 1}}};
  const MutableTensorView to{b.shared_out, hidden_dtype, Shape{t, h}};
  shared->impl_->run(hidden, topk, to, b.scratch.rest(shared->plan_report().workspace_bytes));
  const std::int64_t out_stride = out.row_stride == 0 ? h : out.row_stride;
  parallel_rows(*executor, t, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      std::byte* y = static_cast<std::byte*>(out.data) + i * out_stride * bytes;
      const std::byte* s = b.shared_out + i * h * bytes;
      for (std::int64_t c = 0; c < h; ++c) {
        store_from_f32(y, hidden_dtype, c,
                       load_as_f32(y, hidden_dtype, c) + load_as_f32(s, hidden_dtype, c));
      }
    }
  });
}

void MoeBlock::Impl::run(const MoeBlockInputs& in, const MutableTensorView& out,
                         std::span<std::byte> memory, const MoeBlockOutputs& outputs) const {
  const std::int64_t t = in.hidden_states.shape[0];
  const std::int64_t h = description.hidden_size;
  Arena arena(memory);
  Buffers b = take_buffers(arena, t);
  const TensorView& hidden = in.hidden_states;
  const HiddenRows x{static_cast<const std::byte*>(hidden.data), hidden.dtype,
                     (hidden.row_stride == 0 ? h : hidden.row_stride) * bytes_of(hidden_dtype)};
  TensorView logits = in.router_logits;
  const bool wants_logits = !in.topk.has_value() || !outputs.router_logits.empty();
  if (logits.data == nullptr && wants_logits) {
    compute_logits(x, t, b);
    logits = {b.logits.data(), DType::kF32, Shape{t, routing.num_experts}};
  }
  TopKView topk{{b.ids.data(), DType::kI32, Shape{t, routing.top_k}},
                {b.weights.data(), DType::kF32, Shape{t, routing.top_k}}};
  if (in.topk.has_value()) {
    topk = *in.topk;
  } else {
    route_rows(in, t, logits, b);
  }
  experts.impl_->check_call(hidden, topk, out);
  experts.impl_->run(hidden, topk, out, b.scratch.rest(experts.plan_report().workspace_bytes));
  copy_outputs(routing, logits, topk, t, outputs);
  if (shared != nullptr && shared_enabled) add_shared(hidden, out, b);
}

ResultState MoeBlock::forward(const MoeBlockInputs& inputs, MutableTensorView out,
                              Workspace& workspace, const MoeBlockOutputs& outputs) const {
  const Impl& m = *impl_;
  m.check_inputs(inputs, out, outputs);
  const Workspace::Use use(workspace);
  if (workspace.num_bytes() < m.report.workspace_bytes) {
    fail_argument(m.experts.config(), fmt::format("workspace: expected at least {} bytes, got {}",
                                                  m.report.workspace_bytes, workspace.num_bytes()));
  }
  m.run(inputs, out, workspace.memory(), outputs);
  const bool ranks = m.parallel.tp_size > 1 || m.parallel.ep_size > 1;
  return ranks ? ResultState::kPartial : ResultState::kReduced;
}

}  // namespace fusedmoe
