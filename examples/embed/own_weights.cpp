// Routed experts with weights, logits and threads of the caller: no checkpoint, no files.
#include <cmath>
#include <exception>
#include <iostream>
#include <memory>
#include <vector>

#include "fusedmoe/fusedmoe.h"

namespace {

constexpr std::int64_t kNumTokens = 3;
constexpr std::int64_t kHiddenSize = 64;
constexpr std::int64_t kIntermediateSize = 32;
constexpr std::int64_t kNumExperts = 8;
constexpr std::int64_t kTopK = 2;

std::vector<float> wave(std::int64_t size, float frequency) {
  std::vector<float> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.1F * std::sin(frequency * static_cast<float>(i + 1));
  }
  return values;
}

fusedmoe::MatrixView matrix(const std::vector<float>& values, std::int64_t rows,
                            std::int64_t cols) {
  return {values.data(), fusedmoe::DType::kF32, rows, cols, cols};
}

void load_experts(fusedmoe::FusedMoE& layer) {
  for (std::int64_t expert = 0; expert < kNumExperts; ++expert) {
    const auto frequency = static_cast<float>(expert + 1);
    const auto w1 = wave(kIntermediateSize * kHiddenSize, 0.7F * frequency);
    const auto w3 = wave(kIntermediateSize * kHiddenSize, 1.1F * frequency);
    const auto w2 = wave(kHiddenSize * kIntermediateSize, 1.3F * frequency);
    layer.load_expert(expert, {.w1 = matrix(w1, kIntermediateSize, kHiddenSize),
                               .w3 = matrix(w3, kIntermediateSize, kHiddenSize),
                               .w2 = matrix(w2, kHiddenSize, kIntermediateSize),
                               .b1 = {},
                               .b3 = {},
                               .b2 = {}});
  }
}

void run() {
  using fusedmoe::DType;
  const auto pool = fusedmoe::make_thread_pool({.num_threads = 2});

  fusedmoe::FusedMoEConfig config;
  config.num_experts = kNumExperts;
  config.hidden_size = kHiddenSize;
  config.intermediate_size = kIntermediateSize;
  config.top_k = kTopK;
  config.weight_dtype = DType::kF32;
  config.hidden_dtype = DType::kF32;
  fusedmoe::FusedMoE layer(config);
  const auto& plan = layer.plan({.max_num_tokens = kNumTokens, .executor = pool.get()});
  load_experts(layer);
  fusedmoe::Workspace workspace(plan.workspace_bytes);

  const auto logits = wave(kNumTokens * kNumExperts, 2.9F);
  std::vector<std::int32_t> ids(kNumTokens * kTopK);
  std::vector<float> weights(kNumTokens * kTopK);
  fusedmoe::TopKConfig routing;
  routing.num_experts = kNumExperts;
  routing.top_k = kTopK;
  fusedmoe::TopKOutput topk{ids, weights};
  fusedmoe::route(routing, {logits.data(), DType::kF32, {kNumTokens, kNumExperts}}, topk);

  const auto x = wave(kNumTokens * kHiddenSize, 0.3F);
  std::vector<float> y(x.size());
  layer.forward({x.data(), DType::kF32, {kNumTokens, kHiddenSize}},
                {.topk_ids = {ids.data(), DType::kI32, {kNumTokens, kTopK}},
                 .topk_weights = {weights.data(), DType::kF32, {kNumTokens, kTopK}}},
                {y.data(), DType::kF32, {kNumTokens, kHiddenSize}}, workspace);

  for (std::int64_t token = 0; token < kNumTokens; ++token) {
    const auto row = static_cast<std::size_t>(token);
    std::cout << "token " << token << ": experts " << ids[row * kTopK] << " and "
              << ids[row * kTopK + 1] << ", first output " << y[row * kHiddenSize] << '\n';
  }
  for (const auto& choice : plan.considered) {
    std::cout << choice.name << ": "
              << (choice.chosen           ? "chosen"
                  : choice.reason.empty() ? "possible"
                                          : choice.reason)
              << '\n';
  }
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
