#include "verify_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "fusedmoe/error.h"
#include "layer_facts.h"
#include "memory_watch.h"
#include "progress_bar.h"
#include "timing.h"

namespace fusedmoe::cli {
namespace {

constexpr std::int64_t kLoadMemoryAllowance = std::int64_t{256} << 20;
constexpr int kSpeedRepeats = 11;

struct Rank {
  const OpenModel& model;
  const MoeLayerDescription& layer;
  const VerifySettings& settings;
  Executor& executor;
  ParallelLayout parallel;
  std::int64_t num_tokens;
};

void merge(const std::vector<std::string>& from, std::vector<std::string>& to) {
  for (const std::string& name : from) {
    if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
  }
}

void record(const LoadReport& report, LayerVerdict& verdict) {
  verdict.cells += report.cells;
  verdict.bytes_read += report.bytes_read;
  merge(report.missing, verdict.missing);
  merge(report.unused, verdict.unused);
  merge(report.warnings, verdict.warnings);
}

void record(const MemoryWatch& watch, const Rank& rank, const MoeBlock& block,
            LayerVerdict& verdict) {
  const PlanReport& plan = block.plan_report();
  const std::int64_t one_expert =
      expert_parameters(rank.layer.hidden_size, rank.layer.intermediate_size,
                        rank.layer.activation) *
      dtype_bits(rank.layer.weight_dtype) / 8;
  LoadMemory memory{.peak_bytes = watch.peak_growth_bytes(),
                    .result_bytes = std::max(watch.final_growth_bytes(),
                                             static_cast<std::int64_t>(plan.weight_bytes))};
  memory.allowed_bytes = memory.result_bytes + std::max(kLoadMemoryAllowance, one_expert);
  const bool is_worse = memory.peak_bytes - memory.allowed_bytes >
                        verdict.memory.peak_bytes - verdict.memory.allowed_bytes;
  if (verdict.memory.allowed_bytes == 0 || is_worse) verdict.memory = memory;
}

// A planned and loaded block; empty when the checkpoint does not fill it, which is recorded.
std::optional<MoeBlock> load_block(const Rank& rank, DType hidden_dtype, LayerVerdict& verdict) {
  MemoryWatch watch;
  MoeBlock block(rank.layer, hidden_dtype, rank.parallel);
  verdict.plan = block.plan({.max_num_tokens = std::max<std::int64_t>(1, rank.num_tokens),
                             .executor = &rank.executor,
                             .kernel = rank.settings.kernel});
  ProgressBar bar(fmt::format("loading layer {}", rank.layer.layer_index));
  LoadReport report;
  try {
    report =
        block.load(rank.model.checkpoint,
                   {.progress = bar.callback(), .executor = &rank.executor, .report = &report});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptData && error.code() != ErrorCode::kNotFound) throw;
    verdict.errors.emplace_back(error.what());
    record(report, verdict);
    return std::nullopt;
  }
  watch.stop();
  record(report, verdict);
  record(watch, rank, block, verdict);
  return block;
}

void measure_speed(const Rank& rank, const MoeBlock& block, const BlockInputs& inputs,
                   const BlockResult& result, LayerVerdict& verdict) {
  OwnedTensor output = make_tensor(inputs.hidden_states.dtype, inputs.hidden_states.shape);
  Workspace workspace(block.plan_report().workspace_bytes);
  const MoeBlockInputs views = inputs.views();
  const TimeSpread time = measure(
      kSpeedRepeats, [] {}, [&] { block.forward(views, output.view(), workspace); });
  const auto num_tokens = static_cast<double>(inputs.num_tokens());
  const Work work = block_work(rank.layer, inputs.num_tokens(), result.topk_ids);
  verdict.speed = Speed{.seconds = time.median_seconds,
                        .tokens_per_second = num_tokens / time.median_seconds,
                        .figures = figures(work, time.median_seconds, *rank.settings.limits)};
}

// One rank alone: every recorded tensor is compared, and the bf16 block as well.
void compare_whole(const Rank& rank, const GoldenLayer& golden, MoeBlock& block,
                   LayerVerdict& verdict) {
  const double tolerance = rank.settings.tolerance;
  const BlockInputs inputs = golden_inputs(golden, DType::kF32);
  const BlockResult result = forward_block(block, inputs);
  verdict.checks = check_f32(golden, result, tolerance);
  verdict.tokens_per_expert = result.tokens_per_expert;
  if (rank.settings.limits) measure_speed(rank, block, inputs, result, verdict);
  if (golden.routed_only) {
    block.set_shared_experts_enabled(false);
    const BlockResult routed = forward_block(block, inputs);
    verdict.checks.push_back(check_routed_only(golden, routed.hidden_states, tolerance));
  }
}

void compare_bf16(const Rank& rank, const GoldenLayer& golden, LayerVerdict& verdict) {
  LayerVerdict ignored;  // the same tensors once more: only the result is of interest
  const std::optional<MoeBlock> block = load_block(rank, DType::kBF16, ignored);
  if (!block) return;
  const BlockResult result = forward_block(*block, golden_inputs(golden, DType::kBF16));
  verdict.checks.push_back(check_bf16(golden, result, rank.settings.tolerance_bf16));
}

// A part of a grid: ranks' partial outputs are added in the order of the ranks.
void add_partial(const GoldenLayer& golden, const MoeBlock& block, bool is_first,
                 BlockResult& sum) {
  BlockResult result = forward_block(block, golden_inputs(golden, DType::kF32));
  if (is_first) {
    sum = std::move(result);
    return;
  }
  float* total = sum.hidden_states.floats();
  const float* part = result.hidden_states.floats();
  for (std::int64_t i = 0; i < sum.hidden_states.shape.num_elements(); ++i) total[i] += part[i];
}

}  // namespace

bool LayerVerdict::is_ok() const noexcept {
  return missing.empty() && unused.empty() && errors.empty() && memory.is_ok() &&
         std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.is_ok(); });
}

std::optional<double> LayerVerdict::max_row_error() const noexcept {
  for (const Check& check : checks) {
    if (check.name == "output") return check.error;
  }
  return std::nullopt;
}

LayerVerdict verify_layer(const OpenModel& model, const MoeLayerDescription& layer,
                          const std::optional<GoldenLayer>& golden, const VerifySettings& settings,
                          Executor& executor) {
  const int tp_size = settings.grid.tp_size;
  const int num_ranks = tp_size * settings.grid.ep_size;
  LayerVerdict verdict;
  verdict.layer = layer.layer_index;
  BlockResult sum;
  for (int index = 0; index < num_ranks; ++index) {
    const Rank rank{model,
                    layer,
                    settings,
                    executor,
                    layout_of(settings.grid, index % tp_size, index / tp_size),
                    golden ? golden->input.shape[0] : 1};
    std::optional<MoeBlock> block = load_block(rank, DType::kF32, verdict);
    if (!block) return verdict;
    if (!golden) continue;
    if (num_ranks > 1) {
      add_partial(*golden, *block, index == 0, sum);
      continue;
    }
    compare_whole(rank, *golden, *block, verdict);
    block.reset();  // one block in memory at a time
    if (golden->has_bf16 && golden->output && golden->topk_ids && golden->topk_weights) {
      compare_bf16(rank, *golden, verdict);
    }
  }
  if (golden && num_ranks > 1) {
    verdict.checks = check_f32(*golden, sum, settings.tolerance);
    verdict.tokens_per_expert = sum.tokens_per_expert;
  }
  return verdict;
}

}  // namespace fusedmoe::cli
