#include "options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "fusedmoe/error.h"
#include "terminal.h"

namespace fusedmoe::cli {
namespace {

struct DTypeWord {
  const char* word;
  DType dtype;
};

constexpr DTypeWord kDTypeWords[] = {
    {"f32", DType::kF32}, {"bf16", DType::kBF16}, {"f16", DType::kF16}};

// Sanity bounds of a grid that one process walks through rank by rank.
constexpr int kMaxGridSize = 4096;
constexpr int kMaxThreads = 4096;

}  // namespace

void add_family_option(CLI::App& app, ModelOptions& options) {
  app.add_option("--family", options.family,
                 "A .json file that describes the family, or the name of a family to use in place "
                 "of the one that config.json selects")
      ->type_name("FILE|NAME");
}

CLI::Option* add_dir_argument(CLI::App& app, ModelOptions& options) {
  return app.add_option("dir", options.dir, "Checkpoint folder with config.json and *.safetensors")
      ->type_name("DIR");
}

void add_grid_options(CLI::App& app, GridOptions& options) {
  app.add_option("--tp", options.tp_size, "Tensor-parallel size of the MoE layers")
      ->check(CLI::Range(1, kMaxGridSize).description(""))
      ->type_name("N");
  app.add_option("--ep", options.ep_size, "Expert-parallel size of the MoE layers")
      ->check(CLI::Range(1, kMaxGridSize).description(""))
      ->type_name("N");
}

void add_compute_options(CLI::App& app, ComputeOptions& options) {
  app.add_option("--threads", options.num_threads, "Threads; 0: all usable cores")
      ->check(CLI::Range(0, kMaxThreads).description(""))
      ->type_name("N");
  app.add_flag("--pin", options.pin, "Bind each thread to one core");
  app.add_option("--kernel", options.kernel, "Force a kernel or an arithmetic by name")
      ->type_name("NAME");
}

void add_json_flag(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "JSON on stdout in place of text; errors too");
}

CLI::Option* add_dtype_option(CLI::App& app, const std::string& name, std::string& value,
                              const std::string& what) {
  std::vector<std::string> words;
  for (const DTypeWord& row : kDTypeWords) words.emplace_back(row.word);
  return app.add_option(name, value, what)
      ->check(CLI::IsMember(words).description(""))
      ->type_name(fmt::format("{}", fmt::join(words, "|")));
}

DType activation_dtype(const std::string& word) {
  for (const DTypeWord& row : kDTypeWords) {
    if (word == row.word) return row.dtype;
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("[cli] dtype: expected f32, bf16 or f16, got '{}', pass one of them", word));
}

std::string activation_dtype_word(DType dtype) {
  for (const DTypeWord& row : kDTypeWords) {
    if (dtype == row.dtype) return row.word;
  }
  return std::string(dtype_name(dtype));
}

ParallelLayout layout_of(const GridOptions& grid, int tp_rank, int ep_rank) {
  ParallelLayout layout;
  layout.tp_size = grid.tp_size;
  layout.tp_rank = tp_rank;
  layout.ep_size = grid.ep_size;
  layout.ep_rank = ep_rank;
  return layout;
}

std::unique_ptr<Executor> make_executor(const ComputeOptions& options) {
  return make_thread_pool({.num_threads = options.num_threads, .pin = options.pin});
}

OpenModel open_model(const ModelOptions& options) {
  DescribeOptions describe;
  if (options.family.ends_with(".json")) {
    describe.family_file = options.family;
  } else {
    describe.family = options.family;
  }
  Checkpoint checkpoint = Checkpoint::open(options.dir);
  ModelDescription model = describe_model(checkpoint, describe);
  for (const std::string& warning : checkpoint.warnings()) {
    // The one other file is the recordings, which `verify` reads.
    if (!warning.ends_with(": golden.safetensors")) print_warning(warning);
  }
  for (const std::string& warning : model.warnings) print_warning(warning);
  return {std::move(checkpoint), std::move(model)};
}

void require_moe_layers(const ModelDescription& model, const std::string& dir) {
  if (!model.layers.empty()) return;
  throw Error(ErrorCode::kNotFound,
              fmt::format("[cli] {}: expected an MoE layer, got a {} model without one, choose "
                          "another checkpoint",
                          dir, model.family));
}

const MoeLayerDescription& moe_layer(const ModelDescription& model, int layer) {
  std::vector<int> indices;
  for (const MoeLayerDescription& description : model.layers) {
    if (description.layer_index == layer) return description;
    indices.push_back(description.layer_index);
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("[cli] layer: expected an MoE layer ({}), got {}, pass one of those to "
                          "--layer",
                          indices.empty() ? "this model has none"
                                          : fmt::format("{}", fmt::join(indices, ", ")),
                          layer));
}

}  // namespace fusedmoe::cli
