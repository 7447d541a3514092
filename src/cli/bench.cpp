// fusedmoe bench: the speed of the routed experts, of a published shape or of a checkpoint.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench_layer.h"
#include "command.h"
#include "exit_codes.h"
#include "interrupt_guard.h"
#include "layer_shapes.h"
#include "options.h"
#include "progress_bar.h"
#include "terminal.h"

namespace fusedmoe::cli {
namespace {

constexpr std::int64_t kMaxTokens = 1 << 20;

struct Options {
  std::string shape = "qwen3_30b_a3b";
  ModelOptions model;
  std::optional<int> layer;
  ComputeOptions compute;
  std::vector<std::int64_t> tokens = {1, 4, 16, 64, 256, 512};
  std::string weight_dtype = "bf16";
  std::string hidden_dtype;
  std::string routing = "uniform";
  int repeats = 5;
  bool warm = false;
  bool cold = false;  ///< the default, said aloud
  std::string json_file;
  bool json = false;
};

BenchSettings settings_of(const Options& options) {
  return {.tokens = options.tokens,
          .routing = options.routing == "zipf" ? RoutingPattern::kZipf : RoutingPattern::kUniform,
          .repeats = options.repeats,
          .is_cold = !options.warm};
}

PlanOptions plan_of(const Options& options, Executor& executor) {
  return {.max_num_tokens = *std::max_element(options.tokens.begin(), options.tokens.end()),
          .executor = &executor,
          .kernel = options.compute.kernel};
}

DType hidden_dtype_of(const Options& options, DType weight_dtype) {
  return options.hidden_dtype.empty() ? weight_dtype : activation_dtype(options.hidden_dtype);
}

BenchResult bench_shape(const LayerShape& shape, const Options& options,
                        const BenchMachine& machine) {
  FusedMoEConfig config;
  config.num_experts = shape.num_experts;
  config.hidden_size = shape.hidden_size;
  config.intermediate_size = shape.intermediate_size;
  config.top_k = shape.top_k;
  config.prefix = shape.name;
  config.weight_dtype = activation_dtype(options.weight_dtype);
  config.hidden_dtype = hidden_dtype_of(options, config.weight_dtype);
  config.activation = shape.activation;
  config.has_bias = shape.has_bias;
  FusedMoE layer(config);
  layer.plan(plan_of(options, machine.executor));
  load_random_experts(layer, machine.executor);
  return bench_layer(shape.name, layer, settings_of(options), machine);
}

BenchResult bench_checkpoint(const Options& options, const BenchMachine& machine) {
  const OpenModel model = open_model(options.model);
  require_moe_layers(model.model, options.model.dir);
  const MoeLayerDescription& layer =
      options.layer ? moe_layer(model.model, *options.layer) : model.model.layers.front();
  MoeBlock block(layer, hidden_dtype_of(options, layer.weight_dtype));
  block.plan(plan_of(options, machine.executor));
  {
    ProgressBar bar(fmt::format("loading layer {}", layer.layer_index));
    block.load(model.checkpoint, {.progress = bar.callback(), .executor = &machine.executor});
  }
  const std::string name = fmt::format("{} layer {}", model.model.family, layer.layer_index);
  return bench_layer(name, block.experts(), settings_of(options), machine);
}

nlohmann::ordered_json report_json(const Options& options, const BenchMachine& machine,
                                   const std::vector<BenchResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BenchResult& result : results) list.push_back(bench_json(result));
  return {{"cpu", cpu_features()},
          {"num_threads", machine.executor.num_threads()},
          {"read_gb_per_second", machine.limits.read_bytes_per_second / 1e9},
          {"fma_gflop_per_second", machine.limits.fma_flops_per_second / 1e9},
          {"caches", options.warm ? "warm" : "cold"},
          {"routing", options.routing},
          {"repeats", options.repeats},
          {"results", list}};
}

std::vector<const LayerShape*> chosen_shapes(const Options& options) {
  if (options.shape != "all") return {&layer_shape(options.shape)};
  std::vector<const LayerShape*> shapes;
  for (const LayerShape& shape : layer_shapes()) shapes.push_back(&shape);
  return shapes;
}

int bench(const Options& options) {
  // Names are checked before anything is measured.
  const std::vector<const LayerShape*> shapes = chosen_shapes(options);
  const std::unique_ptr<Executor> executor = make_executor(options.compute);
  const StreamBuffer buffer(*executor);
  const BenchMachine machine{*executor, buffer, measure_limits(buffer, *executor)};
  const bool has_text = !options.json || !options.json_file.empty();
  if (has_text) {
    print(fmt::format("limits measured now: {}\ncaches {}, {} routing, medians of {}\n\n",
                      limits_words(machine.limits, executor->num_threads()),
                      options.warm ? "warm" : "cold", options.routing, options.repeats));
  }
  std::vector<BenchResult> results;
  const auto add = [&](BenchResult result) {
    if (has_text) print(bench_text(result));
    results.push_back(std::move(result));
  };
  if (!options.model.dir.empty()) {
    add(bench_checkpoint(options, machine));
  } else {
    for (const LayerShape* shape : shapes) add(bench_shape(*shape, options, machine));
  }
  if (!options.json) return kSuccess;
  const nlohmann::ordered_json report = report_json(options, machine, results);
  if (options.json_file.empty()) {
    print_json(report);
  } else {
    const InterruptGuard guard;
    write_text_file(options.json_file, json_text(report));
  }
  return kSuccess;
}

}  // namespace

Action declare_bench(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  app.add_option("--shape", options->shape, "A published layer shape, random weights")
      ->type_name(layer_shape_names() + "|all")
      ->capture_default_str();
  app.add_option("--checkpoint", options->model.dir,
                 "A layer of this checkpoint in place of a shape")
      ->type_name("DIR");
  app.add_option("--layer", options->layer, "With --checkpoint: its MoE layer; default: the first")
      ->type_name("N");
  add_family_option(app, options->model);
  app.add_option("--tokens", options->tokens, "Batch sizes, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, kMaxTokens).description(""))
      ->type_name("N,...")
      ->capture_default_str();
  add_dtype_option(app, "--dtype", options->weight_dtype, "Weights of a shape")
      ->capture_default_str();
  add_dtype_option(app, "--hidden-dtype", options->hidden_dtype,
                   "Activations; default: that of the weights");
  app.add_option("--routing", options->routing, "Who is chosen: all alike, or 1/rank")
      ->check(CLI::IsMember({"uniform", "zipf"}).description(""))
      ->type_name("uniform|zipf")
      ->capture_default_str();
  app.add_option("--repeats", options->repeats, "Timed runs of each batch size")
      ->check(CLI::Range(1, 1000000).description(""))
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* warm =
      app.add_flag("--warm", options->warm, "Leave the caches as the last run left them");
  app.add_flag("--cold", options->cold, "Empty the caches before each run (default)")
      ->excludes(warm);
  add_compute_options(app, options->compute);
  CLI::Option* json = app.add_option("--json", options->json_file,
                                     "JSON to FILE beside the table, or to stdout alone")
                          ->expected(0, 1)
                          ->type_name("[FILE]");
  return [options, json] {
    options->json = json->count() > 0;
    return bench(*options);
  };
}

}  // namespace fusedmoe::cli
