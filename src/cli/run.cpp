// fusedmoe run: one MoE layer on hidden states from a file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "block_run.h"
#include "command.h"
#include "exit_codes.h"
#include "fusedmoe/error.h"
#include "interrupt_guard.h"
#include "options.h"
#include "progress_bar.h"
#include "terminal.h"

namespace fusedmoe::cli {
namespace {

struct Options {
  ModelOptions model;
  ComputeOptions compute;
  int layer = 0;
  std::string input;
  std::string output;
  std::string dtype;
  bool json = false;
};

OwnedTensor read_hidden_states(const Checkpoint& file, const std::string& dtype,
                               std::int64_t hidden_size) {
  OwnedTensor tensor = read_tensor(file, "hidden_states");
  if (!is_activation_dtype(tensor.dtype) || tensor.shape.rank() != 2 ||
      tensor.shape[1] != hidden_size) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("[cli] hidden_states: expected [num_tokens, {}] F32, BF16 or F16, got {} "
                    "{} ({}), give the layer its own hidden states",
                    hidden_size, tensor.shape.to_string(), dtype_name(tensor.dtype),
                    file.path().string()));
  }
  if (dtype.empty()) return tensor;
  return converted(tensor.view(), activation_dtype(dtype));
}

BlockInputs read_inputs(const Options& options, const MoeLayerDescription& layer) {
  const Checkpoint file = Checkpoint::open(options.input);
  BlockInputs inputs{.hidden_states = read_hidden_states(file, options.dtype, layer.hidden_size)};
  const auto optional_tensor = [&file](const char* name) {
    return file.find(name) == nullptr ? std::nullopt : std::optional(read_tensor(file, name));
  };
  inputs.router_logits = optional_tensor("router_logits");
  inputs.topk_ids = optional_tensor("topk_ids");
  inputs.topk_weights = optional_tensor("topk_weights");
  inputs.input_ids = optional_tensor("input_ids");
  if (inputs.topk_ids.has_value() != inputs.topk_weights.has_value() ||
      (inputs.topk_ids && inputs.router_logits)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[cli] routing inputs: expected router_logits alone, or topk_ids with "
                            "topk_weights, got {}{}{}({}), remove or add a tensor",
                            inputs.router_logits ? "router_logits " : "",
                            inputs.topk_ids ? "topk_ids " : "",
                            inputs.topk_weights ? "topk_weights " : "", options.input));
  }
  return inputs;
}

template <class T>
TensorView view_of(const std::vector<T>& values, DType dtype, const Shape& shape) {
  return {values.data(), dtype, shape, 0};
}

void write_result(const Options& options, const MoeLayerDescription& layer,
                  const BlockResult& result) {
  const std::int64_t num_tokens = result.hidden_states.shape[0];
  const std::int64_t num_experts = layer.routing.num_experts;
  const Shape slots{num_tokens, layer.routing.top_k};
  const NamedTensor tensors[] = {
      {"hidden_states", result.hidden_states.view()},
      {"router_logits", view_of(result.router_logits, DType::kF32, {num_tokens, num_experts})},
      {"topk_ids", view_of(result.topk_ids, DType::kI32, slots)},
      {"topk_weights", view_of(result.topk_weights, DType::kF32, slots)},
      {"tokens_per_expert", view_of(result.tokens_per_expert, DType::kI64, {num_experts})}};
  const std::pair<std::string, std::string> metadata[] = {
      {"program", std::string("fusedmoe ") + FUSEDMOE_VERSION},
      {"layer", std::to_string(layer.layer_index)}};
  const InterruptGuard guard;
  write_safetensors(options.output, tensors, metadata);
}

void print_result(const Options& options, const PlanReport& plan, std::int64_t num_tokens,
                  std::int64_t dropped) {
  if (dropped > 0) {
    print_warning(
        fmt::format("{} of the given topk_ids name no expert and contributed nothing", dropped));
  }
  if (options.json) {
    print_json({{"ok", true},
                {"layer", options.layer},
                {"num_tokens", num_tokens},
                {"kernel", plan.kernel},
                {"arithmetic", plan.arithmetic},
                {"dropped_ids", dropped},
                {"output", options.output}});
    return;
  }
  print(fmt::format("layer {}: {} tokens with {}, written to {}\n", options.layer, num_tokens,
                    plan.kernel, options.output));
}

int run(const Options& options) {
  const OpenModel model = open_model(options.model);
  const MoeLayerDescription& layer = moe_layer(model.model, options.layer);
  // Inputs are checked before weights are read: a wrong shape should not cost a load.
  const BlockInputs inputs = read_inputs(options, layer);
  const std::unique_ptr<Executor> executor = make_executor(options.compute);
  MoeBlock block(layer, inputs.hidden_states.dtype);
  const PlanReport plan =
      block.plan({.max_num_tokens = std::max<std::int64_t>(1, inputs.num_tokens()),
                  .executor = executor.get(),
                  .kernel = options.compute.kernel});
  {
    ProgressBar bar(fmt::format("loading layer {}", options.layer));
    block.load(model.checkpoint, {.progress = bar.callback(), .executor = executor.get()});
  }
  const BlockResult result = forward_block(block, inputs);
  write_result(options, layer, result);
  print_result(options, plan, inputs.num_tokens(), block.experts().num_dropped_ids());
  return kSuccess;
}

}  // namespace

Action declare_run(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_dir_argument(app, options->model)->required();
  app.add_option("--layer", options->layer, "Index of the MoE layer")->required()->type_name("N");
  app.add_option("--input", options->input, "Safetensors file with hidden_states")
      ->required()
      ->type_name("FILE");
  app.add_option("--output", options->output, "Safetensors file to write")
      ->required()
      ->type_name("FILE");
  add_dtype_option(app, "--dtype", options->dtype,
                   "Activation dtype; default: that of the input. f32 rounds nowhere");
  add_family_option(app, options->model);
  add_compute_options(app, options->compute);
  add_json_flag(app, options->json);
  return [options] { return run(*options); };
}

}  // namespace fusedmoe::cli
