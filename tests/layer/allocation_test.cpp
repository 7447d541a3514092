// A planned layer allocates nothing in forward, whatever the batch and the routing.
#include <gtest/gtest.h>

#include <memory>

#include "layer/count_allocations.h"
#include "layer/every_kernel.h"
#include "layer/made_block.h"

namespace fusedmoe::test {
namespace {

TEST(Allocation, TheCounterCounts) {
  const std::int64_t before = num_allocations();
  const auto one = std::make_unique<int>(1);
  struct alignas(128) Wide {
    int value;
  };
  const auto two = std::make_unique<Wide>();
  EXPECT_GE(num_allocations() - before, 2);
}

TEST(Allocation, ForwardOfFusedMoEAllocatesNothing) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool no_combine : {false, true}) {
      FusedMoEConfig config;
      config.num_experts = 12;
      config.hidden_size = 40;
      config.intermediate_size = 24;
      config.top_k = 3;
      config.weight_dtype = config.hidden_dtype = dtype;
      config.no_combine = no_combine;
      config.num_identity_experts = 1;
      const LayerData data = random_layer(config, 1);
      std::vector<BatchData> batches;
      for (const std::int64_t tokens : {0, 1, 5, 16, 17, 64, 700}) {
        for (const Routing routing : {Routing::kUniform, Routing::kAllToOne, Routing::kAbsentIds}) {
          batches.push_back(random_batch(config, {.num_tokens = tokens, .routing = routing}, 2));
        }
      }
      std::vector<std::byte> out(700 * 3 * 40 * 4);
      every_kernel(data, 700, [&](PlannedLayer& layer) {
        const std::int64_t before = num_allocations();  // the first forward counts too
        for (const BatchData& batch : batches) {
          const Shape shape =
              no_combine ? Shape{batch.num_tokens, 3, 40} : Shape{batch.num_tokens, 40};
          layer.layer().forward(batch.hidden_view(), batch.topk(), {out.data(), dtype, shape},
                                layer.workspace());
        }
        EXPECT_EQ(num_allocations() - before, 0);
      });
    }
  }
}

// Router, routing, experts, shared expert and gate together.
TEST(Allocation, ForwardOfMoeBlockAllocatesNothing) {
  FusedMoEConfig config;
  config.num_experts = 12;
  config.hidden_size = 40;
  config.intermediate_size = 24;
  config.top_k = 3;
  const MadeBlock made(random_block(config, 3));
  const MoeBlock block = made.load(DType::kBF16, 700);
  const BatchData batch = random_batch(config, {.num_tokens = 700}, 4);
  std::vector<std::byte> out(700 * 40 * 2);
  Workspace workspace(block.plan_report().workspace_bytes);
  const std::int64_t before = num_allocations();
  for (const std::int64_t tokens : {0, 1, 5, 16, 17, 64, 700}) {
    MoeBlockInputs inputs;
    inputs.hidden_states = {batch.hidden.data(), DType::kBF16, {tokens, 40}};
    block.forward(inputs, {out.data(), DType::kBF16, {tokens, 40}}, workspace);
  }
  EXPECT_EQ(num_allocations() - before, 0);
}

}  // namespace
}  // namespace fusedmoe::test
