#include "layer/linear.h"

#include <algorithm>
#include <new>

#include "base/half.h"
#include "base/spin.h"
#include "layer/experts/cpu/ops_tables.h"

namespace fusedmoe {

void Linear::FreeAligned::operator()(std::byte* memory) const noexcept {
  ::operator delete (memory, std::align_val_t{64});
}

Linear::Linear(std::int64_t n, std::int64_t k, std::span<const float> weight,
               std::span<const float> bias)
    : n_(n), k_(k) {
  const bool exact = std::all_of(weight.begin(), weight.end(), [](float w) {
    return round_to(w, DType::kBF16) == w;  // false for NaN: those stay f32
  });
  dtype_ = exact ? DType::kBF16 : DType::kF32;
  matrix_ = cpu::make_panel_matrix(n, k, dtype_, 2);
  num_bytes_ = matrix_.panel_bytes * static_cast<std::size_t>(matrix_.num_panels);
  panels_.reset(static_cast<std::byte*>(::operator new (num_bytes_, std::align_val_t{64})));
  cpu::pack_matrix({weight.data(), DType::kF32, n, k, k, 1}, matrix_, dtype_, panels_.get());
  if (!bias.empty()) {
    bias_.assign(static_cast<std::size_t>(matrix_.num_panels * cpu::kPanelColumns), 0.0F);
    std::copy(bias.begin(), bias.end(), bias_.begin());
  }
}

std::byte* Linear::take_scratch(Arena& arena, std::int64_t k, std::int64_t max_rows) {
  const cpu::Ops& ops = cpu::best_f32_ops(DType::kF32);  // blocks are f32 whatever the weights are
  return arena.take_bytes(std::min(max_rows, kChunkRows) * ops.row_bytes(cpu::round_up(k, 2)));
}

void Linear::run(const HiddenRows& x, std::int64_t num_rows, float* out, Arena scratch,
                 Executor& executor) const {
  std::byte* packed = take_scratch(scratch, k_, num_rows);
  for (std::int64_t first = 0; first < num_rows; first += kChunkRows) {
    HiddenRows rows = x;
    rows.data = x.row(first);
    run_chunk(rows, std::min(kChunkRows, num_rows - first), out + first * n_, packed, executor);
  }
}

// Blocks of rows are packed by all threads, then (block, panel) pairs are multiplied.
struct Linear::Chunk {
  const Linear& linear;
  const cpu::Ops& ops;
  const HiddenRows& x;
  std::int64_t num_rows;
  float* out;
  std::byte* packed;
  int num_threads;
  SpinBarrier barrier;

  std::int64_t num_blocks() const { return (num_rows + ops.max_rows - 1) / ops.max_rows; }

  cpu::ActivationBlock block(std::int64_t index) const {
    const std::int64_t first = index * ops.max_rows;
    const auto rows = static_cast<int>(std::min<std::int64_t>(ops.max_rows, num_rows - first));
    const std::int64_t k_padded = linear.matrix_.k_padded;
    return {packed + first * ops.row_bytes(k_padded), rows, k_padded};
  }

  void run(int thread) {
    const std::byte* rows[32];
    for (std::int64_t b = thread; b < num_blocks(); b += num_threads) {
      const cpu::ActivationBlock to = block(b);
      for (int r = 0; r < to.rows; ++r) rows[r] = x.row(b * ops.max_rows + r);
      ops.pack_rows({rows, x.dtype, linear.k_, to});
    }
    barrier.wait();
    const cpu::PanelMatrix& m = linear.matrix_;
    std::byte* out_rows[32];
    for (std::int64_t u = thread; u < num_blocks() * m.num_panels; u += num_threads) {
      const std::int64_t b = u / m.num_panels;
      const std::int64_t panel = u % m.num_panels;
      const std::int64_t column = panel * cpu::kPanelColumns;
      cpu::DownArgs args;
      args.a = block(b);
      args.panel = linear.panels_.get() + static_cast<std::size_t>(panel) * m.panel_bytes;
      args.bias = linear.bias_.empty() ? nullptr : linear.bias_.data() + column;
      args.out_dtype = DType::kF32;
      args.out_rows = out_rows;
      args.out_columns = std::min(cpu::kPanelColumns, linear.n_ - column);
      for (int r = 0; r < args.a.rows; ++r) {
        float* row = out + (b * ops.max_rows + r) * linear.n_ + column;
        out_rows[r] = reinterpret_cast<std::byte*>(row);
      }
      ops.down(args);
    }
  }
};

void Linear::run_chunk(const HiddenRows& x, std::int64_t num_rows, float* out, std::byte* packed,
                       Executor& executor) const {
  Chunk chunk{*this,
              cpu::best_f32_ops(dtype_),
              x,
              num_rows,
              out,
              packed,
              executor.num_threads(),
              SpinBarrier(executor.num_threads())};
  executor.run([](void* raw, int thread) { static_cast<Chunk*>(raw)->run(thread); }, &chunk);
}

}  // namespace fusedmoe
