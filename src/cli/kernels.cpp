// fusedmoe kernels: the table of expert kernels against one problem.
#include "fusedmoe/kernels.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "exit_codes.h"
#include "fusedmoe/error.h"
#include "layer_shapes.h"
#include "options.h"
#include "terminal.h"
#include "text_table.h"

namespace fusedmoe::cli {
namespace {

struct Options {
  std::string shape;
  ExpertsProblem problem{.hidden_size = 2048,  // those of qwen3_30b_a3b
                         .intermediate_size = 768,
                         .num_local_experts = 128,
                         .top_k = 8,
                         .activation = {}};
  std::string weight_dtype = "bf16";
  std::string hidden_dtype = "bf16";
  std::string activation = "silu";
  bool not_gated = false;
  std::string kernel;
  bool json = false;
};

ExpertsProblem problem_of(const Options& options) {
  ExpertsProblem problem = options.problem;
  const auto kind = activation_from_name(options.activation);
  if (!kind) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[cli] activation: expected silu, gelu, gelu_tanh, relu2 or swigluoai, "
                            "got '{}', pass one of them",
                            options.activation));
  }
  problem.activation.kind = *kind;
  problem.activation.is_gated = !options.not_gated;
  problem.weight_dtype = activation_dtype(options.weight_dtype);
  problem.hidden_dtype = activation_dtype(options.hidden_dtype);
  if (options.shape.empty()) return problem;
  const LayerShape& shape = layer_shape(options.shape);
  problem.hidden_size = shape.hidden_size;
  problem.intermediate_size = shape.intermediate_size;
  problem.num_local_experts = shape.num_experts;
  problem.top_k = shape.top_k;
  problem.activation = shape.activation;
  problem.has_bias = shape.has_bias;
  return problem;
}

nlohmann::ordered_json table_json(const ExpertsProblem& problem,
                                  const std::vector<KernelChoice>& table) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const KernelChoice& row : table) {
    kernels.push_back({{"stage", row.stage},
                       {"name", row.name},
                       {"arithmetic", row.arithmetic},
                       {"isa", row.isa},
                       {"chosen", row.chosen},
                       {"reason", row.reason}});
  }
  return {{"cpu", cpu_features()},
          {"problem",
           {{"hidden_size", problem.hidden_size},
            {"intermediate_size", problem.intermediate_size},
            {"num_local_experts", problem.num_local_experts},
            {"top_k", problem.top_k},
            {"weight_dtype", activation_dtype_word(problem.weight_dtype)},
            {"hidden_dtype", activation_dtype_word(problem.hidden_dtype)},
            {"activation", activation_name(problem.activation.kind)},
            {"is_gated", problem.activation.is_gated},
            {"has_bias", problem.has_bias}}},
          {"kernels", kernels}};
}

std::string status_of(const KernelChoice& row) {
  if (row.chosen) return "chosen";
  return row.reason.empty() ? "can serve" : row.reason;
}

int list_kernels(const Options& options) {
  const ExpertsProblem problem = problem_of(options);
  const std::vector<KernelChoice> choices = choose_kernel(problem, options.kernel);
  if (options.json) {
    print_json(table_json(problem, choices));
    return kSuccess;
  }
  TextTable table({"kernel", "arithmetic", "isa", "status"});
  for (const KernelChoice& row : choices) {
    table.add_row({row.name, row.arithmetic, row.isa, status_of(row)});
  }
  print(fmt::format(
      "cpu      {}\nproblem  H {} I {} E {} k {}, {} weights, {} activations\n\n{}"
      "\nKernels of one arithmetic give the same bits. The first that can serve is chosen.\n",
      cpu_features(), problem.hidden_size, problem.intermediate_size, problem.num_local_experts,
      problem.top_k, activation_dtype_word(problem.weight_dtype),
      activation_dtype_word(problem.hidden_dtype), table.plain()));
  return kSuccess;
}

void add_size(CLI::App& app, const char* name, std::int64_t& value, const char* what) {
  app.add_option(name, value, what)
      ->check(CLI::Validator(CLI::PositiveNumber).description(""))
      ->type_name("N")
      ->capture_default_str();
}

}  // namespace

Action declare_kernels(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  app.add_option("--shape", options->shape, "A published layer shape in place of the sizes")
      ->type_name(layer_shape_names());
  add_size(app, "--hidden-size", options->problem.hidden_size, "Width of a token");
  add_size(app, "--intermediate-size", options->problem.intermediate_size,
           "Width of an expert on this rank");
  add_size(app, "--num-experts", options->problem.num_local_experts, "Experts on this rank");
  add_size(app, "--top-k", options->problem.top_k, "Experts of a token");
  add_dtype_option(app, "--weight-dtype", options->weight_dtype, "Weights")->capture_default_str();
  add_dtype_option(app, "--hidden-dtype", options->hidden_dtype, "Activations")
      ->capture_default_str();
  app.add_option("--activation", options->activation, "silu, gelu, gelu_tanh, relu2 or swigluoai")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--not-gated", options->not_gated, "One input matrix in place of gate and up");
  app.add_flag("--bias", options->problem.has_bias, "Experts have biases");
  app.add_option("--kernel", options->kernel, "Force a kernel or an arithmetic by name")
      ->type_name("NAME");
  add_json_flag(app, options->json);
  return [options] { return list_kernels(*options); };
}

}  // namespace fusedmoe::cli
