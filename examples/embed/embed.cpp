// Runs one MoE layer of a checkpoint: the place to start from when an engine embeds fusedmoe.
//
//   embed <checkpoint folder> [<n-th MoE layer>, default 0]
#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <vector>

#include "fusedmoe/fusedmoe.h"

namespace {

// Stands for the hidden states that an engine has at this point.
std::vector<float> make_hidden_states(std::int64_t num_tokens, std::int64_t hidden_size) {
  std::vector<float> values(static_cast<std::size_t>(num_tokens * hidden_size));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  return values;
}

void run_layer(const char* folder, std::size_t nth) {
  constexpr std::int64_t kNumTokens = 4;
  const auto checkpoint = fusedmoe::Checkpoint::open(folder);
  const auto model = fusedmoe::describe_model(checkpoint);
  const auto& layer = model.layers.at(nth);

  fusedmoe::MoeBlock block(layer, fusedmoe::DType::kF32);
  const auto& plan = block.plan({.max_num_tokens = kNumTokens});
  block.load(checkpoint);
  fusedmoe::Workspace workspace(plan.workspace_bytes);

  const auto x = make_hidden_states(kNumTokens, layer.hidden_size);
  std::vector<float> y(x.size());
  const fusedmoe::Shape shape{kNumTokens, layer.hidden_size};
  block.forward({.hidden_states = {x.data(), fusedmoe::DType::kF32, shape}},
                {y.data(), fusedmoe::DType::kF32, shape}, workspace);

  std::cout << model.family << " layer " << layer.layer_index << ", kernel " << plan.kernel << " ("
            << plan.arithmetic << "), workspace " << plan.workspace_bytes << " bytes\n";
  for (std::int64_t token = 0; token < kNumTokens; ++token) {
    double squares = 0.0;
    for (std::int64_t i = 0; i < layer.hidden_size; ++i) {
      const double value = y[static_cast<std::size_t>(token * layer.hidden_size + i)];
      squares += value * value;
    }
    if (!(squares > 0.0) || !std::isfinite(squares)) {
      throw fusedmoe::Error(fusedmoe::ErrorCode::kInternal,
                            "[embed] output: expected finite values, not all zero");
    }
    std::cout << "token " << token << ": norm of the output " << std::sqrt(squares) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: embed <checkpoint folder> [<n-th MoE layer>]\n";
    return 2;
  }
  try {
    run_layer(argv[1], argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
