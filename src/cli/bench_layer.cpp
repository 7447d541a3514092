#include "bench_layer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "options.h"
#include "text_table.h"

namespace fusedmoe::cli {
namespace {

BenchRow bench_tokens(const FusedMoE& layer, std::int64_t num_tokens, const BenchSettings& settings,
                      const BenchMachine& machine) {
  const FusedMoEConfig& config = layer.config();
  const RandomChoices choices = random_choices(settings.routing, num_tokens, config.num_experts,
                                               config.top_k, std::uint64_t{1} << 50);
  const Shape slots{num_tokens, config.top_k};
  const TopKView topk{{choices.topk_ids.data(), DType::kI32, slots},
                      {choices.topk_weights.data(), DType::kF32, slots}};
  const OwnedTensor input = random_tensor(config.hidden_dtype, {num_tokens, config.hidden_size},
                                          1.0F, std::uint64_t{1} << 42, machine.executor);
  OwnedTensor output = make_tensor(config.hidden_dtype, input.shape);
  Workspace workspace(layer.plan_report().workspace_bytes);
  const auto forward = [&] { layer.forward(input.view(), topk, output.view(), workspace); };
  const auto prepare = [&] {
    if (settings.is_cold) machine.buffer.read(machine.executor);
  };
  forward();  // first touch of the workspace and of the code
  BenchRow row{.num_tokens = num_tokens,
               .time = measure(settings.repeats, prepare, forward),
               .work = experts_work(config, choices.topk_ids),
               .figures = {}};
  row.figures = figures(row.work, row.time.median_seconds, machine.limits);
  return row;
}

}  // namespace

BenchResult bench_layer(const std::string& name, const FusedMoE& layer,
                        const BenchSettings& settings, const BenchMachine& machine) {
  const PlanReport& plan = layer.plan_report();
  BenchResult result{name, layer.config(), plan.kernel, plan.arithmetic, {}};
  for (const std::int64_t num_tokens : settings.tokens) {
    result.rows.push_back(bench_tokens(layer, num_tokens, settings, machine));
  }
  return result;
}

std::string bench_text(const BenchResult& result) {
  const FusedMoEConfig& config = result.config;
  TextTable table({">tokens", ">ms", ">(min", ">max)", ">tokens/s", ">GB/s", ">GFLOP/s",
                   ">% of floor", "floor"});
  for (const BenchRow& row : result.rows) {
    const Figures& f = row.figures;
    table.add_row({std::to_string(row.num_tokens),
                   fmt::format("{:.3f}", row.time.median_seconds * 1e3),
                   fmt::format("{:.3f}", row.time.min_seconds * 1e3),
                   fmt::format("{:.3f}", row.time.max_seconds * 1e3),
                   format_count(static_cast<double>(row.num_tokens) / row.time.median_seconds),
                   fmt::format("{:.1f}", f.bytes_per_second / 1e9),
                   fmt::format("{:.1f}", f.flops_per_second / 1e9),
                   fmt::format("{:.0f}", f.percent_of_floor), f.bound});
  }
  return fmt::format("{}  H {} I {} E {} k {}, {} weights, {} activations, {}\n{}\n", result.name,
                     config.hidden_size, config.intermediate_size, config.num_experts, config.top_k,
                     activation_dtype_word(config.weight_dtype),
                     activation_dtype_word(config.hidden_dtype), result.kernel, table.plain(2));
}

nlohmann::ordered_json bench_json(const BenchResult& result) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const BenchRow& row : result.rows) {
    rows.push_back(
        {{"num_tokens", row.num_tokens},
         {"median_ms", row.time.median_seconds * 1e3},
         {"min_ms", row.time.min_seconds * 1e3},
         {"max_ms", row.time.max_seconds * 1e3},
         {"tokens_per_second", static_cast<double>(row.num_tokens) / row.time.median_seconds},
         {"weight_bytes", row.work.weight_bytes},
         {"flops", row.work.flops},
         {"gb_per_second", row.figures.bytes_per_second / 1e9},
         {"gflop_per_second", row.figures.flops_per_second / 1e9},
         {"percent_of_memory_floor", row.figures.percent_of_memory_floor},
         {"percent_of_floor", row.figures.percent_of_floor},
         {"floor", row.figures.bound}});
  }
  const FusedMoEConfig& config = result.config;
  return {{"name", result.name},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.intermediate_size},
          {"num_experts", config.num_experts},
          {"top_k", config.top_k},
          {"weight_dtype", activation_dtype_word(config.weight_dtype)},
          {"hidden_dtype", activation_dtype_word(config.hidden_dtype)},
          {"kernel", result.kernel},
          {"arithmetic", result.arithmetic},
          {"rows", rows}};
}

}  // namespace fusedmoe::cli
