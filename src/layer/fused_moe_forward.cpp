// The forward of FusedMoE: dispatch -> experts -> combine, a chunk of tokens at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/half.h"
#include "fusedmoe/error.h"
#include "layer/dispatch/local.h"
#include "layer/fused_moe_impl.h"
#include "layer/parallel_rows.h"

namespace fusedmoe {
namespace {

// Scratch that one chunk of tokens may take. Large enough that an expert's weights are read from
// memory rarely, small enough to stay a detail next to the weights; changes no bit.
constexpr std::size_t kMostScratchBytes = std::size_t{512} << 20;

std::int64_t bytes_of(DType dtype) { return dtype_bits(dtype) / 8; }

std::int64_t row_stride(const TensorView& view, std::int64_t row_elements) {
  return view.row_stride == 0 ? row_elements : view.row_stride;
}

}  // namespace

struct FusedMoE::Impl::Buffers {
  ExpertBatch batch;
  SlotRows slots;
  Arena scratch;
};

FusedMoE::Impl::Buffers FusedMoE::Impl::take_buffers(Arena& arena, std::int64_t num_tokens) const {
  Buffers b;
  const std::int64_t num_slots = num_tokens * config.top_k;
  b.batch.num_tokens = num_tokens;
  b.batch.top_k = config.top_k;
  b.batch.expert_offsets = arena.take<std::int64_t>(num_local_experts + 1);
  b.batch.row_slot = arena.take<SlotIndex>(num_slots);
  b.batch.slot_expert = arena.take<std::int32_t>(num_slots);
  b.slots.dtype = config.hidden_dtype;
  b.slots.row_bytes = config.hidden_size * bytes_of(config.hidden_dtype);
  if (!config.no_combine) b.slots.data = arena.take_bytes(num_slots * b.slots.row_bytes);
  b.scratch = arena;
  kernel->take_scratch(arena, num_slots, num_local_experts, executor->num_threads());
  return b;
}

const PlanReport& FusedMoE::Impl::plan(const PlanOptions& options) {
  if (options.max_num_tokens < 0) {
    fail_argument(
        config, fmt::format("plan: expected max_num_tokens >= 0, got {}", options.max_num_tokens));
  }
  const ExpertsProblem problem{config.hidden_size, local_intermediate,  num_local_experts,
                               config.top_k,       config.weight_dtype, config.hidden_dtype,
                               config.activation,  config.has_bias};
  std::vector<KernelChoice> choices = choose_kernel(problem, options.kernel);
  const ExpertsKernelEntry& entry = chosen_entry(choices);
  const bool any_loaded =
      std::any_of(loaded.begin(), loaded.end(), [](const auto& l) { return l.load(); });
  if (any_loaded && report.kernel != entry.name) {
    fail_argument(config, fmt::format("plan: experts are packed for kernel {}, so it cannot become "
                                      "{}; make a new layer",
                                      report.kernel, entry.name));
  }
  if (kernel == nullptr || report.kernel != entry.name) {
    kernel = entry.make(problem);
    weights = ExpertWeights(num_local_experts, kernel->packer().slot_bytes());
  }
  if (options.executor != nullptr) {
    executor = options.executor;
  } else if (executor == nullptr) {
    own_executor = make_thread_pool();
    executor = own_executor.get();
  }
  report = {};
  report.kernel = entry.name;
  report.arithmetic = entry.arithmetic;
  report.considered = std::move(choices);
  report.max_num_tokens = options.max_num_tokens;
  report.num_threads = executor->num_threads();
  report.weight_bytes = weights.num_bytes();
  const auto measure = [&](std::int64_t num_tokens) {
    Arena arena;
    take_buffers(arena, num_tokens);
    return arena.num_bytes();
  };
  chunk_tokens = std::max<std::int64_t>(options.max_num_tokens, 1);
  while (chunk_tokens > 64 && measure(chunk_tokens) > kMostScratchBytes) {
    chunk_tokens = (chunk_tokens + 1) / 2;
  }
  report.workspace_bytes = measure(chunk_tokens);
  report.notes.push_back(kernel->describe());
  report.notes.push_back(fmt::format("tokens are run {} at a time", chunk_tokens));
  report.notes.push_back(config.apply_router_weight_on_input
                             ? "the router weight multiplies w13's result, before the activation"
                             : "the router weight multiplies w2's result, before its rounding");
  report.notes.push_back(
      config.routed_scaling_factor == 1.0F
          ? "no factor here: routing has applied it, or there is none"
          : fmt::format("combine multiplies the sum by {}", config.routed_scaling_factor));
  return report;
}

void FusedMoE::Impl::check_ready() const {
  if (kernel == nullptr) fail_argument(config, "forward: call plan() first");
  const auto missing =
      std::count_if(loaded.begin(), loaded.end(), [](const auto& l) { return !l.load(); });
  if (missing > 0) {
    fail_argument(config, fmt::format("forward: {} of {} local experts are not loaded", missing,
                                      num_local_experts));
  }
}

void FusedMoE::Impl::check_call(const TensorView& hidden, const TopKView& topk,
                                const MutableTensorView& out) const {
  const std::int64_t h = config.hidden_size;
  const std::int64_t k = config.top_k;
  const auto describe = [](const TensorView& v) {
    return fmt::format("{} {}", v.shape.to_string(), dtype_name(v.dtype));
  };
  if (hidden.shape.rank() != 2 || hidden.shape[1] != h || hidden.dtype != config.hidden_dtype) {
    fail_argument(config, fmt::format("hidden_states: expected [num_tokens, {}] {}, got {}", h,
                                      dtype_name(config.hidden_dtype), describe(hidden)));
  }
  const std::int64_t t = hidden.shape[0];
  if (t > report.max_num_tokens) {
    fail_argument(config, fmt::format("hidden_states: planned for at most {} tokens, got {}; plan "
                                      "again with more",
                                      report.max_num_tokens, t));
  }
  if (row_stride(hidden, h) < h) {
    fail_argument(config, fmt::format("hidden_states: expected a row stride of at least {}, got {}",
                                      h, hidden.row_stride));
  }
  const Shape slots{t, k};
  const bool ids_ok = topk.topk_ids.dtype == DType::kI32 || topk.topk_ids.dtype == DType::kI64;
  if (topk.topk_ids.shape != slots || !ids_ok || row_stride(topk.topk_ids, k) != k) {
    fail_argument(config, fmt::format("topk_ids: expected contiguous {} I32 or I64, got {}",
                                      slots.to_string(), describe(topk.topk_ids)));
  }
  if (topk.topk_weights.shape != slots || topk.topk_weights.dtype != DType::kF32 ||
      row_stride(topk.topk_weights, k) != k) {
    fail_argument(config, fmt::format("topk_weights: expected contiguous {} F32, got {}",
                                      slots.to_string(), describe(topk.topk_weights)));
  }
  const Shape wanted = config.no_combine ? Shape{t, k, h} : Shape{t, h};
  const std::int64_t out_row = config.no_combine ? k * h : h;
  if (out.shape != wanted || out.dtype != config.hidden_dtype ||
      row_stride(out, out_row) < out_row ||
      (config.no_combine && row_stride(out, out_row) != out_row)) {
    fail_argument(config, fmt::format("out: expected {} {}, got {}", wanted.to_string(),
                                      dtype_name(config.hidden_dtype), describe(out)));
  }
  if (t == 0) return;
  for (const auto& [name, data] :
       {std::pair<const char*, const void*>("hidden_states", hidden.data),
        {"topk_ids", topk.topk_ids.data},
        {"topk_weights", topk.topk_weights.data},
        {"out", out.data}}) {
    if (data == nullptr) {
      fail_argument(config,
                    fmt::format("{}: expected the data of {} tokens, got a null pointer", name, t));
    }
  }
  const std::int64_t bytes = bytes_of(config.hidden_dtype);
  const auto* x = static_cast<const std::byte*>(hidden.data);
  const auto* y = static_cast<const std::byte*>(out.data);
  const std::int64_t x_bytes = ((t - 1) * row_stride(hidden, h) + h) * bytes;
  const std::int64_t y_bytes = ((t - 1) * row_stride(out, out_row) + out_row) * bytes;
  const bool overlaps = x < y + y_bytes && y < x + x_bytes;
  const bool same = x == y && row_stride(hidden, h) == row_stride(out, out_row);
  if (overlaps && !(config.inplace && same)) {
    fail_argument(config,
                  config.inplace
                      ? "out: overlaps hidden_states without being the same rows"
                      : "out: overlaps hidden_states; ask for inplace in the configuration");
  }
}

// Rows of the experts that return their input, and zeros where no_combine shows absent slots.
static void fill_special_slots(const ExpertBatch& batch, const HiddenRows& hidden,
                               const float* topk_weights, const SlotRows& slots,
                               std::int64_t hidden_size, bool zero_absent, Executor& executor) {
  parallel_rows(executor, batch.num_tokens * batch.top_k, [&](SlotIndex first, SlotIndex last) {
    for (SlotIndex s = first; s < last; ++s) {
      const std::int32_t expert = batch.slot_expert[static_cast<std::size_t>(s)];
      if (expert == kIdentitySlot) {
        const std::byte* x = hidden.row(s / batch.top_k);
        for (std::int64_t c = 0; c < hidden_size; ++c) {
          store_from_f32(slots.row(s), slots.dtype, c,
                         topk_weights[s] * load_as_f32(x, hidden.dtype, c));
        }
      } else if (expert == kAbsentSlot && zero_absent) {
        std::memset(slots.row(s), 0, static_cast<std::size_t>(slots.row_bytes));
      }
    }
  });
}

void FusedMoE::Impl::run_chunk(const HiddenRows& hidden, const TopKView& topk,
                               std::int64_t num_tokens, std::byte* out, std::int64_t out_row_bytes,
                               std::span<std::byte> memory) const {
  Arena arena(memory);
  Buffers b = take_buffers(arena, num_tokens);
  if (config.no_combine) b.slots.data = out;
  dispatch_local(topk, {local_of_id}, num_local_experts, b.batch);
  if (b.batch.num_dropped_ids > 0) dropped_ids += b.batch.num_dropped_ids;
  const auto* topk_weights = static_cast<const float*>(topk.topk_weights.data);
  kernel->run(
      {&b.batch, hidden, topk_weights, config.apply_router_weight_on_input, &weights, b.slots},
      b.scratch, *executor);
  if (config.no_combine || config.num_identity_experts > 0) {
    fill_special_slots(b.batch, hidden, topk_weights, b.slots, config.hidden_size,
                       config.no_combine, *executor);
  }
  if (config.no_combine) return;
  kernel->combine({&b.batch, b.slots, config.routed_scaling_factor, out, out_row_bytes}, *executor);
}

void FusedMoE::Impl::run(const TensorView& hidden, const TopKView& topk,
                         const MutableTensorView& out, std::span<std::byte> memory) const {
  const std::int64_t t = hidden.shape[0];
  const std::int64_t k = config.top_k;
  const std::int64_t bytes = bytes_of(config.hidden_dtype);
  const std::int64_t out_row = config.no_combine ? k * config.hidden_size : config.hidden_size;
  const std::int64_t id_bytes = bytes_of(topk.topk_ids.dtype);
  HiddenRows rows{static_cast<const std::byte*>(hidden.data), hidden.dtype,
                  row_stride(hidden, config.hidden_size) * bytes};
  auto* to = static_cast<std::byte*>(out.data);
  const std::int64_t out_row_bytes = row_stride(out, out_row) * bytes;
  for (std::int64_t first = 0; first < t; first += chunk_tokens) {
    const std::int64_t count = std::min(chunk_tokens, t - first);
    TopKView part = topk;
    part.topk_ids.data = static_cast<const std::byte*>(topk.topk_ids.data) + first * k * id_bytes;
    part.topk_weights.data = static_cast<const float*>(topk.topk_weights.data) + first * k;
    HiddenRows part_rows = rows;
    part_rows.data = rows.row(first);
    run_chunk(part_rows, part, count, to + first * out_row_bytes, out_row_bytes, memory);
  }
}

}  // namespace fusedmoe
