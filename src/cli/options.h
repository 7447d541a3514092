// Options that several commands share, and what they stand for.
#pragma once

#include <memory>
#include <string>

#include "fusedmoe/dtype.h"
#include "fusedmoe/executor.h"
#include "fusedmoe/model.h"
#include "fusedmoe/parallel.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fusedmoe::cli {

struct ModelOptions {
  std::string dir;
  std::string family;  ///< a .json file that describes one, or a name of the table
};

struct GridOptions {
  int tp_size = 1;
  int ep_size = 1;
};

/// The place of one rank in the grid.
ParallelLayout layout_of(const GridOptions& grid, int tp_rank, int ep_rank);

struct ComputeOptions {
  int num_threads = 0;
  bool pin = false;
  std::string kernel;
};

void add_family_option(CLI::App& app, ModelOptions& options);
CLI::Option* add_dir_argument(CLI::App& app, ModelOptions& options);
void add_grid_options(CLI::App& app, GridOptions& options);
void add_compute_options(CLI::App& app, ComputeOptions& options);
/// `--json` as a flag: JSON on stdout in place of text.
void add_json_flag(CLI::App& app, bool& json);
/// An option whose value is f32, bf16 or f16.
CLI::Option* add_dtype_option(CLI::App& app, const std::string& name, std::string& value,
                              const std::string& what);

/// "f32", "bf16", "f16" -> dtype. @throws Error(kInvalidArgument) for any other word.
DType activation_dtype(const std::string& word);
/// dtype -> the word that `activation_dtype` reads.
std::string activation_dtype_word(DType dtype);

std::unique_ptr<Executor> make_executor(const ComputeOptions& options);

/// A checkpoint with its description. Warnings of both have been printed on stderr.
struct OpenModel {
  Checkpoint checkpoint;
  ModelDescription model;
};
OpenModel open_model(const ModelOptions& options);

/// @throws Error(kNotFound) when the model has no MoE layer.
void require_moe_layers(const ModelDescription& model, const std::string& dir);
/// @throws Error(kNotFound) listing the MoE layers when `layer` is not one of them.
const MoeLayerDescription& moe_layer(const ModelDescription& model, int layer);

}  // namespace fusedmoe::cli
