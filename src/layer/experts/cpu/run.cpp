#include "layer/experts/cpu/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/spin.h"
#include "layer/parallel_rows.h"

namespace fusedmoe::cpu {
namespace {

constexpr int kMostRows = 32;   // of any kernel's block: bounds the pointer arrays on the stack
constexpr int kMostSlots = 64;  // of a token: the configuration allows no more

}  // namespace

// Hands out numbers 0 ... count - 1 in runs: long ones first, so that a thread reads long stretches
// of weights in order, single ones at the end, so that threads finish together. Which thread
// computes what changes no bit.
class PanelExpertsKernel::WorkCounter {
 public:
  void reset(std::int64_t count) noexcept {
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
  }

  /// [first, last) of the next run; false when nothing is left.
  bool claim(int num_threads, std::int64_t& first, std::int64_t& last) noexcept {
    std::int64_t begin = next_.load(std::memory_order_relaxed);
    while (begin < count_) {
      const std::int64_t length = std::max<std::int64_t>(1, (count_ - begin) / (4 * num_threads));
      if (next_.compare_exchange_weak(begin, begin + length, std::memory_order_relaxed)) {
        first = begin;
        last = begin + length;
        return true;
      }
    }
    return false;
  }

 private:
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_{0};
};

struct PanelExpertsKernel::Run {
  const ExpertsCall& call;
  const Scratch& scratch;
  std::int64_t num_blocks;
  std::int64_t num_hit;
  int num_threads;
  SpinBarrier barrier;
  WorkCounter pack, gate_up, down;
};

PanelExpertsKernel::PanelExpertsKernel(const ExpertsProblem& problem, const Ops& ops,
                                       std::int64_t k_unit, std::string description)
    : problem_(problem),
      ops_(ops),
      layout_(make_expert_layout(problem, k_unit)),
      packer_(layout_),
      description_(std::move(description)) {}

Scratch PanelExpertsKernel::take(Arena& arena, std::int64_t max_rows,
                                 std::int64_t num_experts) const {
  Scratch s;
  const std::int64_t max_hit = std::min(num_experts, max_rows);
  s.blocks = arena.take<Scratch::Block>(max_rows / ops_.max_rows + max_hit);
  s.hit_experts = arena.take<std::int32_t>(max_hit);
  s.hit_first_block = arena.take<std::int32_t>(max_hit + 1);
  s.x = arena.take_bytes(max_rows * ops_.row_bytes(layout_.w13.k_padded));
  s.a = arena.take_bytes(max_rows * ops_.row_bytes(layout_.w2.k_padded));
  return s;
}

void PanelExpertsKernel::take_scratch(Arena& arena, std::int64_t max_rows, std::int64_t num_experts,
                                      int) const {
  take(arena, max_rows, num_experts);
}

// Cuts every hit expert's rows into blocks of nearly equal size.
static std::int64_t cut_blocks(const ExpertBatch& batch, int max_rows, const Scratch& scratch,
                               std::int64_t& num_hit) {
  std::int64_t num_blocks = 0;
  num_hit = 0;
  for (std::size_t e = 0; e + 1 < batch.expert_offsets.size(); ++e) {
    const std::int64_t begin = batch.expert_offsets[e];
    const std::int64_t rows = batch.expert_offsets[e + 1] - begin;
    if (rows == 0) continue;
    scratch.hit_experts[static_cast<std::size_t>(num_hit)] = static_cast<std::int32_t>(e);
    scratch.hit_first_block[static_cast<std::size_t>(num_hit++)] =
        static_cast<std::int32_t>(num_blocks);
    const std::int64_t parts = (rows + max_rows - 1) / max_rows;
    for (std::int64_t p = 0; p < parts; ++p) {
      const std::int64_t first = begin + rows * p / parts;
      const std::int64_t last = begin + rows * (p + 1) / parts;
      scratch.blocks[static_cast<std::size_t>(num_blocks++)] = {
          first, static_cast<std::int32_t>(e), static_cast<std::int32_t>(last - first)};
    }
  }
  scratch.hit_first_block[static_cast<std::size_t>(num_hit)] =
      static_cast<std::int32_t>(num_blocks);
  return num_blocks;
}

void PanelExpertsKernel::run(const ExpertsCall& call, Arena arena, Executor& executor) const {
  const ExpertBatch& batch = *call.batch;
  const std::int64_t num_rows = batch.expert_offsets.back();
  if (num_rows == 0) return;
  const auto num_experts = static_cast<std::int64_t>(batch.expert_offsets.size()) - 1;
  const Scratch scratch = take(arena, num_rows, num_experts);
  std::int64_t num_hit = 0;
  const std::int64_t num_blocks = cut_blocks(batch, ops_.max_rows, scratch, num_hit);
  Run run{call,
          scratch,
          num_blocks,
          num_hit,
          executor.num_threads(),
          SpinBarrier(executor.num_threads()),
          {},
          {},
          {}};
  run.pack.reset(num_blocks);
  run.gate_up.reset(num_hit * layout_.w13.num_panels);
  run.down.reset(num_hit * layout_.w2.num_panels);
  struct Context {
    const PanelExpertsKernel* kernel;
    Run* run;
  } context{this, &run};
  executor.run(
      [](void* raw, int thread) {
        const auto& c = *static_cast<Context*>(raw);
        c.kernel->run_thread(*c.run, thread);
      },
      &context);
}

void PanelExpertsKernel::run_thread(Run& run, int) const {
  ops_.thread_begin();
  pack_blocks(run);
  run.barrier.wait();
  gate_up_panels(run);
  run.barrier.wait();
  down_panels(run);
  ops_.thread_end();
}

ActivationBlock PanelExpertsKernel::block_of(std::byte* rows, const Scratch::Block& block,
                                             std::int64_t k_padded) const {
  return {rows + block.first_row * ops_.row_bytes(k_padded), block.rows, k_padded};
}

void PanelExpertsKernel::pack_blocks(Run& run) const {
  const ExpertBatch& batch = *run.call.batch;
  const std::byte* rows[kMostRows];
  std::int64_t first = 0;
  std::int64_t last = 0;
  while (run.pack.claim(run.num_threads, first, last)) {
    for (std::int64_t b = first; b < last; ++b) {
      const Scratch::Block& block = run.scratch.blocks[static_cast<std::size_t>(b)];
      for (int r = 0; r < block.rows; ++r) {
        const SlotIndex slot = batch.row_slot[static_cast<std::size_t>(block.first_row + r)];
        rows[r] = run.call.hidden.row(slot / batch.top_k);
      }
      ops_.pack_rows({rows, run.call.hidden.dtype, problem_.hidden_size,
                      block_of(run.scratch.x, block, layout_.w13.k_padded)});
    }
  }
}

// One panel of one hit expert, with the blocks of rows to multiply by it.
struct PanelExpertsKernel::PanelWork {
  const std::byte* panel = nullptr;
  const float* bias = nullptr;  ///< [64] or nullptr
  std::int64_t first_column = 0;
  std::span<const Scratch::Block> blocks;
};

// Calls body(work) for each (hit expert, panel) that this thread claims, expert by expert.
template <class Body>
void PanelExpertsKernel::for_each_panel(Run& run, WorkCounter& counter, const PanelMatrix& matrix,
                                        const Body& body) const {
  std::int64_t first = 0;
  std::int64_t last = 0;
  while (counter.claim(run.num_threads, first, last)) {
    for (std::int64_t unit = first; unit < last; ++unit) {
      const auto hit = static_cast<std::size_t>(unit / matrix.num_panels);
      const std::int64_t panel = unit % matrix.num_panels;
      const std::byte* expert = run.call.weights->slot(run.scratch.hit_experts[hit]);
      PanelWork work;
      work.panel = expert + matrix.offset + static_cast<std::size_t>(panel) * matrix.panel_bytes;
      if (layout_.has_bias) {
        work.bias =
            reinterpret_cast<const float*>(expert + matrix.bias_offset) + panel * kPanelColumns;
      }
      work.first_column = panel * matrix.columns_per_panel;
      const auto begin = static_cast<std::size_t>(run.scratch.hit_first_block[hit]);
      const auto end = static_cast<std::size_t>(run.scratch.hit_first_block[hit + 1]);
      work.blocks = run.scratch.blocks.subspan(begin, end - begin);
      body(work);
    }
  }
}

void PanelExpertsKernel::gate_up_panels(Run& run) const {
  const std::span<const SlotIndex> row_slot = run.call.batch->row_slot;
  for_each_panel(run, run.gate_up, layout_.w13, [&](const PanelWork& work) {
    float weight[kMostRows];
    GateUpArgs args;
    args.panel = work.panel;
    args.bias = work.bias;
    args.input_weight = run.call.weight_on_input ? weight : nullptr;
    args.activation = problem_.activation;
    args.hidden_dtype = problem_.hidden_dtype;
    args.out_column = work.first_column;
    args.out_columns = layout_.w13.num_columns - work.first_column;
    for (const Scratch::Block& block : work.blocks) {
      args.x = block_of(run.scratch.x, block, layout_.w13.k_padded);
      args.out = block_of(run.scratch.a, block, layout_.w2.k_padded);
      for (int r = 0; r < block.rows; ++r) {
        weight[r] = run.call.topk_weights[row_slot[static_cast<std::size_t>(block.first_row + r)]];
      }
      ops_.gate_up(args);
    }
  });
}

void PanelExpertsKernel::down_panels(Run& run) const {
  const std::span<const SlotIndex> row_slot = run.call.batch->row_slot;
  const SlotRows& slots = run.call.slots;
  for_each_panel(run, run.down, layout_.w2, [&](const PanelWork& work) {
    float weight[kMostRows];
    std::byte* out[kMostRows];
    DownArgs args;
    args.panel = work.panel;
    args.bias = work.bias;
    args.output_weight = run.call.weight_on_input ? nullptr : weight;
    args.out_dtype = slots.dtype;
    args.out_rows = out;
    args.out_columns = std::min(kPanelColumns, layout_.w2.num_columns - work.first_column);
    const std::int64_t offset = work.first_column * (dtype_bits(slots.dtype) / 8);
    for (const Scratch::Block& block : work.blocks) {
      args.a = block_of(run.scratch.a, block, layout_.w2.k_padded);
      for (int r = 0; r < block.rows; ++r) {
        const SlotIndex slot = row_slot[static_cast<std::size_t>(block.first_row + r)];
        weight[r] = run.call.topk_weights[slot];
        out[r] = slots.row(slot) + offset;
      }
      ops_.down(args);
    }
  });
}

void PanelExpertsKernel::combine(const CombineCall& call, Executor& executor) const {
  const ExpertBatch& batch = *call.batch;
  parallel_rows(executor, batch.num_tokens, [&](std::int64_t first, std::int64_t last) {
    const std::byte* slots[kMostSlots];
    for (std::int64_t t = first; t < last; ++t) {
      int count = 0;
      for (SlotIndex s = t * batch.top_k; s < (t + 1) * batch.top_k; ++s) {
        if (batch.slot_expert[static_cast<std::size_t>(s)] == kAbsentSlot) continue;
        slots[count++] = call.slots.row(s);
      }
      ops_.combine({slots, count, call.factor, call.slots.dtype,
                    call.out + t * call.out_row_stride_bytes, problem_.hidden_size});
    }
  });
}

std::string PanelExpertsKernel::describe() const {
  return fmt::format("{}; panels of {} columns, blocks of up to {} rows", description_,
                     kPanelColumns, ops_.max_rows);
}

}  // namespace fusedmoe::cpu
