// fusedmoe verify: loads every MoE layer for every rank of a grid and compares with recordings.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.h"
#include "exit_codes.h"
#include "options.h"
#include "terminal.h"
#include "verify_layer.h"
#include "verify_report.h"

namespace fusedmoe::cli {
namespace {

struct Options {
  ModelOptions model;
  GridOptions grid;
  ComputeOptions compute;
  std::optional<int> layer;
  double tolerance = 1e-5;
  bool show = false;
  bool json = false;
};

std::vector<const MoeLayerDescription*> chosen_layers(const Options& options,
                                                      const ModelDescription& model) {
  if (options.layer) return {&moe_layer(model, *options.layer)};
  std::vector<const MoeLayerDescription*> layers;
  for (const MoeLayerDescription& layer : model.layers) layers.push_back(&layer);
  return layers;
}

std::string header_text(const Options& options, const OpenModel& model, bool has_golden,
                        int num_threads, const VerifySettings& settings) {
  std::string text =
      fmt::format("{} ({}), {} MoE layers, tp {} x ep {}, {}\n", options.model.dir,
                  model.model.family, model.model.layers.size(), options.grid.tp_size,
                  options.grid.ep_size, has_golden ? "with recorded outputs" : "nothing recorded");
  if (settings.limits) {
    text += fmt::format("limits measured now: {}\n", limits_words(*settings.limits, num_threads));
  }
  return text + "\n";
}

nlohmann::ordered_json report_json(const Options& options, const OpenModel& model,
                                   const std::vector<LayerVerdict>& verdicts, bool ok) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerVerdict& verdict : verdicts) layers.push_back(verdict_json(verdict));
  return {{"ok", ok},
          {"family", model.model.family},
          {"tp_size", options.grid.tp_size},
          {"ep_size", options.grid.ep_size},
          {"layers", layers}};
}

VerifySettings make_settings(const Options& options, Executor& executor) {
  VerifySettings settings{.grid = options.grid,
                          .kernel = options.compute.kernel,
                          .tolerance = options.tolerance,
                          .limits = {}};
  if (options.show) settings.limits = measure_limits(StreamBuffer(executor), executor);
  return settings;
}

// A recorded layer that the description does not have is a layer that would be skipped in silence.
std::vector<LayerVerdict> undescribed_layers(const ModelDescription& model,
                                             const Checkpoint& golden) {
  std::vector<LayerVerdict> verdicts;
  for (const int recorded : recorded_layers(golden)) {
    const bool is_described =
        std::any_of(model.layers.begin(), model.layers.end(),
                    [recorded](const auto& layer) { return layer.layer_index == recorded; });
    if (is_described) continue;
    LayerVerdict verdict;
    verdict.layer = recorded;
    verdict.errors = {"recorded in golden.safetensors, but no MoE layer of this model"};
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

int verify(const Options& options) {
  const OpenModel model = open_model(options.model);
  require_moe_layers(model.model, options.model.dir);
  const auto layers = chosen_layers(options, model.model);
  const std::optional<Checkpoint> golden_file = open_golden(options.model.dir);
  const std::unique_ptr<Executor> executor = make_executor(options.compute);
  const VerifySettings settings = make_settings(options, *executor);
  if (!options.json) {
    print(header_text(options, model, golden_file.has_value(), executor->num_threads(), settings));
  }
  std::vector<LayerVerdict> verdicts;
  bool ok = true;
  const auto add = [&](LayerVerdict verdict) {
    ok = ok && verdict.is_ok();
    if (!options.json) print(verdict_text(verdict, options.show));
    verdicts.push_back(std::move(verdict));
  };
  for (const MoeLayerDescription* layer : layers) {
    std::optional<GoldenLayer> golden;
    if (golden_file) golden = read_golden_layer(*golden_file, layer->layer_index);
    add(verify_layer(model, *layer, golden, settings, *executor));
  }
  if (golden_file) {
    for (LayerVerdict& verdict : undescribed_layers(model.model, *golden_file)) {
      add(std::move(verdict));
    }
  }
  if (options.json) {
    print_json(report_json(options, model, verdicts, ok));
  } else {
    print(fmt::format("{}: {} of {} layers checked\n", ok ? "ok" : "FAILED", verdicts.size(),
                      model.model.layers.size()));
  }
  return ok ? kSuccess : kVerdictFailed;
}

}  // namespace

Action declare_verify(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_dir_argument(app, options->model)->required();
  add_grid_options(app, options->grid);
  app.add_option("--layer", options->layer, "Only this MoE layer")->type_name("N");
  app.add_option("--tolerance", options->tolerance,
                 "Largest row error of f32 results, relative to the row's largest value")
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
      ->type_name("X")
      ->capture_default_str();
  app.add_flag("--show", options->show,
               "Also the kernel and why, the speed, and a picture of the experts' load");
  add_family_option(app, options->model);
  add_compute_options(app, options->compute);
  add_json_flag(app, options->json);
  return [options] { return verify(*options); };
}

}  // namespace fusedmoe::cli
