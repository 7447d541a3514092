// What the stages around the experts cost: routing, dispatch, the router's product, the thread
// pool.
//
// Run      build/bench/bench/bench_stages --benchmark_min_time=0.2
// Read     a decode step of Qwen3-30B-A3B reads 75 MB of expert weights: about 2500 us at 30 GB/s.
#include <benchmark/benchmark.h>

#include <numeric>
#include <random>
#include <vector>

#include "fusedmoe/executor.h"
#include "fusedmoe/routing.h"
#include "fusedmoe/workspace.h"
#include "layer/dispatch/local.h"
#include "layer/linear.h"

namespace {

using fusedmoe::DType;
using fusedmoe::Shape;

std::vector<float> random_floats(std::size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(generator);
  return values;
}

// Arguments: tokens, experts, top_k, grouped (DeepSeek-V3's function) or not.
void route(benchmark::State& state) {
  const auto tokens = state.range(0);
  fusedmoe::TopKConfig config;
  config.num_experts = state.range(1);
  config.top_k = state.range(2);
  if (state.range(3) != 0) {
    config.scoring = fusedmoe::ScoringFunc::kSigmoid;
    config.num_expert_group = 8;
    config.topk_group = 4;
    config.correction_bias.assign(static_cast<std::size_t>(config.num_experts), 0.1F);
  }
  const auto logits = random_floats(static_cast<std::size_t>(tokens * config.num_experts));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * config.top_k));
  std::vector<float> weights(ids.size());
  fusedmoe::TopKOutput out{ids, weights};
  for (auto _ : state) {
    fusedmoe::route(config, {logits.data(), DType::kF32, Shape{tokens, config.num_experts}}, out);
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}
BENCHMARK(route)
    ->Args({1, 128, 8, 0})
    ->Args({4096, 128, 8, 0})
    ->Args({4096, 256, 8, 1})
    ->Args({4096, 8, 2, 0});

// Arguments: tokens, experts, top_k.
void dispatch_local(benchmark::State& state) {
  const auto tokens = state.range(0);
  const auto experts = state.range(1);
  const auto top_k = state.range(2);
  const auto slots = static_cast<std::size_t>(tokens * top_k);
  std::mt19937 generator(1);
  std::vector<std::int32_t> ids(slots);
  for (auto& id : ids) id = static_cast<std::int32_t>(generator() % static_cast<unsigned>(experts));
  std::vector<float> weights(slots, 1.0F);
  std::vector<std::int32_t> map(static_cast<std::size_t>(experts));
  std::iota(map.begin(), map.end(), 0);
  std::vector<std::int64_t> offsets(map.size() + 1);
  std::vector<fusedmoe::SlotIndex> rows(slots);
  std::vector<std::int32_t> slot_expert(slots);
  const fusedmoe::TopKView topk{{ids.data(), DType::kI32, Shape{tokens, top_k}},
                                {weights.data(), DType::kF32, Shape{tokens, top_k}}};
  for (auto _ : state) {
    fusedmoe::ExpertBatch batch{tokens, top_k, offsets, rows, slot_expert, 0};
    fusedmoe::dispatch_local(topk, {map}, experts, batch);
    benchmark::DoNotOptimize(rows.data());
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}
BENCHMARK(dispatch_local)->Args({1, 128, 8})->Args({4096, 128, 8})->Args({4096, 8, 2});

// Arguments: tokens, hidden size, experts.
void router_product(benchmark::State& state) {
  const auto tokens = state.range(0);
  const auto hidden = state.range(1);
  const auto experts = state.range(2);
  const auto weight = random_floats(static_cast<std::size_t>(hidden * experts));
  const auto x = random_floats(static_cast<std::size_t>(tokens * hidden));
  const fusedmoe::Linear router(experts, hidden, weight, {});
  std::vector<float> logits(static_cast<std::size_t>(tokens * experts));
  fusedmoe::Arena counting;
  fusedmoe::Linear::take_scratch(counting, hidden, tokens);
  fusedmoe::Workspace workspace(counting.num_bytes());
  const auto executor = fusedmoe::make_thread_pool();
  const fusedmoe::HiddenRows rows{reinterpret_cast<const std::byte*>(x.data()), DType::kF32,
                                  hidden * 4};
  for (auto _ : state) {
    router.run(rows, tokens, logits.data(), fusedmoe::Arena(workspace.memory()), *executor);
    benchmark::DoNotOptimize(logits.data());
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}
BENCHMARK(router_product)->Args({1, 2048, 128})->Args({256, 2048, 128})->Args({256, 7168, 256});

// One fork and join of all threads.
void thread_pool_run(benchmark::State& state) {
  const auto executor = fusedmoe::make_thread_pool();
  for (auto _ : state) executor->run([](void*, int) {}, nullptr);
}
BENCHMARK(thread_pool_run);

}  // namespace
