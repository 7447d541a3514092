// Replacing the weights of a loaded layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusedmoe/error.h"
#include "layer/every_kernel.h"

namespace fusedmoe::test {
namespace {

FusedMoEConfig update_config() {
  FusedMoEConfig config;
  config.num_experts = 6;
  config.hidden_size = 40;
  config.intermediate_size = 24;
  config.top_k = 2;
  config.has_bias = true;
  return config;
}

void load(FusedMoE& layer, const LayerData& data, std::int64_t first, std::int64_t last) {
  for (std::int64_t e = first; e < last; ++e) layer.load_expert(e, ExpertSlice(data, e).tensors());
}

TEST(Update, B29_committed_in_chunks_it_is_a_fresh_load) {
  const LayerData a = random_layer(update_config(), 1);
  const LayerData b = random_layer(update_config(), 2);
  const BatchData batch = random_batch(update_config(), {.num_tokens = 16}, 3);
  for (const KernelChoice& kernel : usable_kernels(update_config())) {
    SCOPED_TRACE(kernel.name);
    PlannedLayer fresh(b, 16, kernel.name);
    PlannedLayer layer(a, 16, kernel.name);
    const auto before = layer.run(batch);
    layer.layer().begin_update();
    load(layer.layer(), b, 4, 5);
    EXPECT_EQ(layer.run(batch), before) << "staged weights show before the commit";
    load(layer.layer(), b, 0, 4);
    load(layer.layer(), b, 5, 6);
    layer.layer().commit_update();
    EXPECT_EQ(layer.layer().weights_checksum(), fresh.layer().weights_checksum());
    EXPECT_EQ(layer.run(batch), fresh.run(batch));
  }
}

TEST(Update, B29_aborted_halfway_leaves_the_old_weights) {
  const LayerData a = random_layer(update_config(), 1);
  const LayerData b = random_layer(update_config(), 2);
  const BatchData batch = random_batch(update_config(), {.num_tokens = 16}, 3);
  every_kernel(a, 16, [&](PlannedLayer& layer) {
    const auto before = layer.run(batch);
    const std::uint64_t checksum = layer.layer().weights_checksum();
    layer.layer().begin_update();
    load(layer.layer(), b, 0, 3);
    layer.layer().abort_update();
    EXPECT_EQ(layer.layer().weights_checksum(), checksum);
    EXPECT_EQ(layer.run(batch), before);
    // And the next update starts clean.
    layer.layer().begin_update();
    layer.layer().commit_update();
    EXPECT_EQ(layer.layer().weights_checksum(), checksum);
  });
}

TEST(Update, TouchesOnlyTheExpertsThatWereLoaded) {
  const LayerData a = random_layer(update_config(), 1);
  LayerData mixed = random_layer(update_config(), 2);
  PlannedLayer layer(a, 16);
  layer.layer().begin_update();
  load(layer.layer(), mixed, 2, 3);
  layer.layer().commit_update();
  for (const std::size_t e : {0U, 1U, 3U, 4U, 5U}) mixed.experts[e] = a.experts[e];
  EXPECT_EQ(layer.layer().weights_checksum(), PlannedLayer(mixed, 16).layer().weights_checksum());
}

TEST(Update, WrongOrderIsAnError) {
  const LayerData a = random_layer(update_config(), 1);
  FusedMoE empty(update_config());
  empty.plan({.max_num_tokens = 1});
  EXPECT_THROW(empty.begin_update(), Error);
  PlannedLayer layer(a, 16);
  EXPECT_THROW(layer.layer().commit_update(), Error);
  layer.layer().begin_update();
  EXPECT_THROW(layer.layer().begin_update(), Error);
  ExpertTensors wrong = ExpertSlice(a, 0).tensors();
  wrong.w1.cols = 39;
  EXPECT_THROW(layer.layer().load_expert(0, wrong), Error);
  layer.layer().abort_update();
  layer.layer().abort_update();  // harmless
}

// Loading order, threads and slicing leave the same bytes.
TEST(Update, LoadingOrderDoesNotMatter) {
  const LayerData a = random_layer(update_config(), 1);
  PlannedLayer ordered(a, 1);
  FusedMoE backwards(update_config());
  backwards.plan({.max_num_tokens = 1});
  for (std::int64_t e = 5; e >= 0; --e) backwards.load_expert(e, ExpertSlice(a, e).tensors());
  EXPECT_EQ(backwards.weights_checksum(), ordered.layer().weights_checksum());
}

}  // namespace
}  // namespace fusedmoe::test
