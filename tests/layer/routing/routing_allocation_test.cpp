// route() does not allocate for up to 4096 experts; every allocation of this program is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "layer/routing/routing_run.h"

namespace {

std::atomic<long> num_allocations{0};

void* counted(std::size_t bytes) {
  ++num_allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace fusedmoe::test {
namespace {

long allocations_of_route(const TopKConfig& c) {
  const std::vector<float> logits(static_cast<std::size_t>(2 * c.num_experts), 0.5F);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(2 * c.top_k));
  std::vector<float> weights(ids.size());
  TopKOutput out{ids, weights, 0};
  const long before = num_allocations;
  route(c, {logits.data(), DType::kF32, Shape{2, c.num_experts}}, out);
  return num_allocations - before;
}

TEST(RoutingAllocation, NoneForUpTo4096Experts) {
  route_all({.num_experts = 2, .top_k = 1}, {0, 1});  // detects the processor once
  for (int scoring = 0; scoring <= static_cast<int>(ScoringFunc::kSparseMixer); ++scoring) {
    TopKConfig c{.num_experts = 4096, .top_k = 2, .scoring = static_cast<ScoringFunc>(scoring)};
    c.renormalize = c.scoring != ScoringFunc::kSparseMixer;
    EXPECT_EQ(allocations_of_route(c), 0);
    if (c.scoring == ScoringFunc::kSparseMixer) continue;
    c.correction_bias.assign(4096, 0.5F);
    c.top_k = 64;
    c.num_expert_group = 512;
    c.topk_group = 64;
    EXPECT_EQ(allocations_of_route(c), 0);
  }
}

TEST(RoutingAllocation, TheCounterSeesLargerOnes) {
  EXPECT_GT(allocations_of_route({.num_experts = 4097, .top_k = 2}), 0);
}

}  // namespace
}  // namespace fusedmoe::test
