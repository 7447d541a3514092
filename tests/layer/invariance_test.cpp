// The row of a token: the same bits alone, anywhere in any batch, with any number of threads, after
// anything. Random shapes, every kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "reference/case_table.h"
#include "reference/planned_layer.h"

namespace fusedmoe::test {
namespace {

constexpr int kThreadCounts[] = {1, 2, 3, 5};
constexpr Routing kNeighbours[] = {Routing::kAllToOne, Routing::kUniform, Routing::kAbsentIds};

bool serves(const std::string& kernel, const FusedMoEConfig& config) {
  const std::vector<KernelChoice> kernels = usable_kernels(config);
  return std::any_of(kernels.begin(), kernels.end(),
                     [&](const KernelChoice& k) { return k.name == kernel; });
}

// A random layer that `kernel` can serve.
FusedMoEConfig random_config(const std::string& kernel, Random& random) {
  constexpr DType kDTypes[] = {DType::kBF16, DType::kF32, DType::kF16};
  constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGelu,
                                         Activation::kGeluTanh, Activation::kRelu2,
                                         Activation::kSwigluOai};
  for (;;) {
    FusedMoEConfig config;
    config.num_experts = 1 + random.below(9);
    config.hidden_size = 1 + random.below(140);
    config.intermediate_size = 1 + random.below(100);
    config.top_k = 1 + random.below(4);
    config.weight_dtype = kDTypes[random.below(3)];
    config.hidden_dtype = kDTypes[random.below(3)];
    config.activation.kind = kActivations[random.below(5)];
    config.activation.is_gated =
        config.activation.kind == Activation::kSwigluOai || random.below(3) != 0;
    config.has_bias = random.below(2) == 0;
    config.apply_router_weight_on_input = random.below(4) == 0;
    config.no_combine = random.below(5) == 0;
    if (!config.no_combine && random.below(2) == 0) config.routed_scaling_factor = 2.5F;
    if (serves(kernel, config)) return config;
  }
}

// `neighbours` with token i of `probes` put in place of token places[i].
BatchData plant(const BatchData& neighbours, const BatchData& probes,
                const std::vector<std::int64_t>& places) {
  BatchData batch = neighbours;
  const auto row = static_cast<std::ptrdiff_t>(batch.hidden.size()) / batch.num_tokens;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto from = static_cast<std::ptrdiff_t>(i);
    std::memcpy(batch.hidden.data() + places[i] * row, probes.hidden.data() + from * row,
                static_cast<std::size_t>(row));
    std::copy_n(probes.topk_ids.begin() + from * batch.top_k, batch.top_k,
                batch.topk_ids.begin() + places[i] * batch.top_k);
    std::copy_n(probes.topk_weights.begin() + from * batch.top_k, batch.top_k,
                batch.topk_weights.begin() + places[i] * batch.top_k);
  }
  return batch;
}

class Invariance : public testing::TestWithParam<std::string> {
 protected:
  // Each probe alone, on one thread.
  static std::vector<std::vector<std::byte>> alone(PlannedLayer& layer, const BatchData& probes) {
    std::vector<std::vector<std::byte>> rows;
    for (std::int64_t t = 0; t < probes.num_tokens; ++t) {
      rows.push_back(layer.run(take_tokens(probes, std::span(&t, 1))));
    }
    return rows;
  }

  static void expect_rows(PlannedLayer& layer, const BatchData& batch,
                          const std::vector<std::int64_t>& places,
                          const std::vector<std::vector<std::byte>>& rows) {
    const std::vector<std::byte> result = layer.run(batch);
    for (std::size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(take_rows(result, batch.num_tokens, places[i]), rows[i])
          << "token " << places[i] << " of " << batch.num_tokens;
    }
  }
};

TEST_P(Invariance, RowDoesNotDependOnBatchOrThreads) {
  Random random(7);
  for (int shape = 0; shape < 6; ++shape) {
    const FusedMoEConfig config = random_config(GetParam(), random);
    SCOPED_TRACE(fmt::format("shape {}: H {} I {} E {} k {}", shape, config.hidden_size,
                             config.intermediate_size, config.num_experts, config.top_k));
    const LayerData data = random_layer(config, random.next());
    std::vector<std::unique_ptr<PlannedLayer>> layers;
    for (const int threads : kThreadCounts) {
      layers.push_back(std::make_unique<PlannedLayer>(data, 1024, GetParam(), threads));
    }
    const BatchData probes =
        random_batch(config, {.num_tokens = 3, .routing = Routing::kAbsentIds}, random.next());
    const auto rows = alone(*layers[0], probes);
    std::size_t turn = 0;
    for (const std::int64_t size : {3, 7, 16, 17, 64, 129, 1024}) {
      for (const Routing routing : kNeighbours) {
        const BatchData neighbours =
            random_batch(config, {.num_tokens = size, .routing = routing}, random.next());
        const std::vector<std::int64_t> places{0, size / 2, size - 1};
        expect_rows(*layers[turn++ % layers.size()], plant(neighbours, probes, places), places,
                    rows);
      }
    }
    const BatchData pair = random_batch(config, {.num_tokens = 2}, random.next());
    expect_rows(*layers[1], plant(pair, probes, {1}), {1}, rows);
  }
}

TEST_P(Invariance, RowDoesNotDependOnALongBatch) {
  FusedMoEConfig config;
  config.num_experts = 4;
  config.hidden_size = 24;
  config.intermediate_size = 20;
  config.top_k = 2;
  const LayerData data = random_layer(config, 11);
  PlannedLayer layer(data, 4096, GetParam(), 3);
  const BatchData probes = random_batch(config, {.num_tokens = 4}, 12);
  const auto rows = alone(layer, probes);
  const BatchData neighbours =
      random_batch(config, {.num_tokens = 4096, .routing = Routing::kZipf}, 13);
  const std::vector<std::int64_t> places{0, 1023, 2049, 4095};
  expect_rows(layer, plant(neighbours, probes, places), places, rows);
}

// Everything that is not the token itself is NaN: other rows, their weights, the batch before.
TEST_P(Invariance, RowSurvivesNaN) {
  Random random(17);
  for (int shape = 0; shape < 4; ++shape) {
    const FusedMoEConfig config = random_config(GetParam(), random);
    const LayerData data = random_layer(config, random.next());
    PlannedLayer layer(data, 40, GetParam(), 2);
    const BatchData probes = random_batch(config, {.num_tokens = 2}, random.next());
    const auto rows = alone(layer, probes);
    BatchData poison = random_batch(config, {.num_tokens = 40}, random.next());
    std::memset(poison.hidden.data(), 0xFF, poison.hidden.size());
    std::fill(poison.topk_weights.begin(), poison.topk_weights.end(),
              std::numeric_limits<float>::quiet_NaN());
    layer.run(poison);
    const std::vector<std::int64_t> places{3, 38};
    expect_rows(layer, plant(poison, probes, places), places, rows);
    layer.run(poison);
    EXPECT_EQ(alone(layer, probes), rows);
  }
}

// Padding rows carry ids -1 and garbage; they give zeros and change nothing.
TEST_P(Invariance, PaddingRowsAreZeroAndChangeNothing) {
  Random random(19);
  const FusedMoEConfig config = random_config(GetParam(), random);
  const LayerData data = random_layer(config, random.next());
  PlannedLayer layer(data, 24, GetParam(), 2);
  const BatchData probes = random_batch(config, {.num_tokens = 2}, random.next());
  const auto rows = alone(layer, probes);
  BatchData padding = random_batch(config, {.num_tokens = 24}, random.next());
  std::memset(padding.hidden.data(), 0xFF, padding.hidden.size());
  std::fill(padding.topk_ids.begin(), padding.topk_ids.end(), -1);
  const BatchData batch = plant(padding, probes, {0, 20});
  const std::vector<std::byte> result = layer.run(batch);
  const std::vector<std::byte> zeros(rows[0].size(), std::byte{0});
  for (std::int64_t t = 0; t < 24; ++t) {
    const auto& expected = t == 0 ? rows[0] : t == 20 ? rows[1] : zeros;
    EXPECT_EQ(take_rows(result, 24, t), expected) << "token " << t;
  }
}

TEST_P(Invariance, HundredRepeatsUnderLoadGiveTheSameBits) {
  Random random(23);
  const FusedMoEConfig config = random_config(GetParam(), random);
  const LayerData data = random_layer(config, random.next());
  PlannedLayer layer(data, 17, GetParam(), 3);
  const BatchData batch = random_batch(config, {.num_tokens = 17}, random.next());
  std::atomic<bool> stop{false};
  std::thread load([&] {
    while (!stop.load(std::memory_order_relaxed)) std::this_thread::yield();
  });
  const std::vector<std::byte> first = layer.run(batch);
  int differing = 0;
  for (int i = 0; i < 100; ++i) differing += layer.run(batch) == first ? 0 : 1;
  stop = true;
  load.join();
  EXPECT_EQ(differing, 0);
}

// Weights of experts that no token chose may be anything.
TEST_P(Invariance, WeightsOfUnchosenExpertsDoNotLeak) {
  FusedMoEConfig config;
  config.num_experts = 3;
  config.hidden_size = 40;
  config.intermediate_size = 24;
  config.top_k = 2;
  LayerData data = random_layer(config, 29);
  BatchData batch = random_batch(config, {.num_tokens = 9}, 30);
  for (std::int32_t& id : batch.topk_ids) id = id == 1 ? 2 : id;
  const std::vector<std::byte> clean = PlannedLayer(data, 9, GetParam()).run(batch);
  for (GuardedBytes* w : {&data.experts[1].w1, &data.experts[1].w3, &data.experts[1].w2}) {
    std::memset(w->data(), 0xFF, w->size());
  }
  EXPECT_EQ(PlannedLayer(data, 9, GetParam()).run(batch), clean);
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const KernelChoice& kernel : usable_kernels(layer_cases().front().config)) {
    names.push_back(kernel.name);
  }
  FusedMoEConfig bf16;
  bf16.num_experts = bf16.hidden_size = bf16.intermediate_size = bf16.top_k = 1;
  for (const KernelChoice& kernel : usable_kernels(bf16)) {
    if (std::find(names.begin(), names.end(), kernel.name) == names.end()) {
      names.push_back(kernel.name);
    }
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(EveryKernel, Invariance, testing::ValuesIn(kernel_names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace fusedmoe::test
