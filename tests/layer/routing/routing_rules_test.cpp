// The rules of docs/routing.md on worked examples: selection, ties, non-finite logits, weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "layer/routing/routing_run.h"

namespace fusedmoe::test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr auto kSigmoid = ScoringFunc::kSigmoid;

void expect_row(const Routed& routed, const std::vector<std::int32_t>& ids,
                const std::vector<float>& weights, std::size_t row = 0) {
  EXPECT_EQ(routed.row_ids(row, ids.size()), ids);
  EXPECT_THAT(routed.row_weights(row, ids.size()), Pointwise(FloatNear(2e-6F), weights));
}

const std::vector<float> kGroupedLogits = {0.5F, -1, 2,  0,  1.5F, 1.4F, -2,   -2,
                                           3,    -3, -3, -3, 0.9F, 0.8F, 0.7F, 0.6F};

TopKConfig grouped_sigmoid(std::int64_t top_k) {
  return {.num_experts = 16,
          .top_k = top_k,
          .scoring = kSigmoid,
          .num_expert_group = 4,
          .topk_group = 2};
}

TEST(RoutingRules, BiasedGroupsRankByTheirTwoBest) {
  TopKConfig c = grouped_sigmoid(4);
  c.correction_bias.assign(16, 0.0F);
  expect_row(route_all(c, kGroupedLogits), {2, 4, 5, 0},
             {0.282034F, 0.261790F, 0.256862F, 0.199314F});
  c.correction_bias[1] = 0.9F;  // a strong bias on a weak expert: chosen first, small weight
  expect_row(route_all(c, kGroupedLogits), {1, 2, 4, 5},
             {0.097108F, 0.318035F, 0.295207F, 0.289650F});
  c.routed_scaling_factor = 2.5F;
  expect_row(route_all(c, kGroupedLogits), {1, 2, 4, 5},
             {0.242771F, 0.795088F, 0.738017F, 0.724124F});
}

TEST(RoutingRules, FusedSharedColumnsComeLastWithTheirOwnWeight) {
  TopKConfig c = grouped_sigmoid(5);
  c.correction_bias.assign(16, 0.0F);
  c.correction_bias[1] = 0.9F;
  c.routed_scaling_factor = 2.5F;
  c.num_fused_shared_experts = 1;
  expect_row(route_all(c, kGroupedLogits), {1, 2, 4, 5, 16},
             {0.242771F, 0.795088F, 0.738017F, 0.724124F, 1.0F});
  c.top_k = 6;
  c.num_fused_shared_experts = 2;
  c.fused_shared_weight = 0.4F;
  expect_row(route_all(c, kGroupedLogits), {1, 2, 4, 5, 16, 17},
             {0.242771F, 0.795088F, 0.738017F, 0.724124F, 0.4F, 0.4F});
}

TEST(RoutingRules, UnbiasedGroupsRankByTheirBestAndDroppedOnesAreNeverChosen) {
  TopKConfig c{
      .num_experts = 8, .top_k = 3, .renormalize = false, .num_expert_group = 4, .topk_group = 2};
  expect_row(route_all(c, {2, 0, 1.9F, 1.8F, -1, 3, 0, 0}), {5, 0, 1},
             {0.460910F, 0.169559F, 0.022947F});
  const std::vector<float> underflow = {0, -200, -1, -201, -2, -202, -3, -203};
  expect_row(route_all(c, underflow), {0, 2, 1}, {0.643914F, 0.236883F, 0.0F});
}

TEST(RoutingRules, SparseMixer) {
  const TopKConfig c{
      .num_experts = 4, .top_k = 2, .scoring = ScoringFunc::kSparseMixer, .renormalize = false};
  expect_row(route_all(c, {2.0F, 1.98F, 1.0F, 0.5F}), {0, 1}, {0.505000F, 1.0F});
  expect_row(route_all(c, {2.0F, 1.5F, 1.49F, -3.0F}), {0, 1}, {1.0F, 0.502500F});
  expect_row(route_all(c, {-1.0F, -1.01F, -2.0F, -3.0F}), {0, 1}, {0.502500F, 1.0F});
  expect_row(route_all(c, {0, 0, 0, 0}), {0, 1}, {0.25F, 1.0F / 3.0F});
  expect_row(route_all(c, {kNan, -kInf, 1.0F, kNan}), {2, 0}, {1.0F, 0.0F});
}

TEST(RoutingRules, EqualLogitsGoToTheLowerId) {
  for (const ScoringFunc scoring :
       {ScoringFunc::kSoftmax, kSigmoid, ScoringFunc::kSqrtSoftplus, ScoringFunc::kTopKSoftmax,
        ScoringFunc::kTopKSigmoid, ScoringFunc::kLogits}) {
    for (const bool is_biased : {false, true}) {
      TopKConfig c{.num_experts = 8, .top_k = 4, .scoring = scoring};
      if (is_biased) c.correction_bias.assign(8, 0.5F);
      expect_row(route_all(c, std::vector<float>(8, 0.75F)), {0, 1, 2, 3},
                 {0.25F, 0.25F, 0.25F, 0.25F});
    }
  }
  const TopKConfig c{.num_experts = 4, .top_k = 3};
  EXPECT_THAT(route_all(c, {-0.0F, 0.0F, -0.0F, 1.0F}).ids, ElementsAre(3, 0, 1));
}

TEST(RoutingRules, TinyDifferencesDecide) {
  TopKConfig c{.num_experts = 512, .top_k = 2};
  std::vector<float> logits(512, -1.0F);
  logits[0] = 0.5F;
  logits[300] = 0.5F + 1e-7F;
  EXPECT_THAT(route_all(c, logits).ids, ElementsAre(300, 0));
  // Equal after rounding to bf16: logits stay f32.
  EXPECT_EQ(route_all({.num_experts = 2, .top_k = 1}, {8.000F, 8.010F}).ids[0], 1);
}

TEST(RoutingRules, EqualGroupsKeepTheLowerGroup) {
  TopKConfig c{
      .num_experts = 8, .top_k = 2, .scoring = kSigmoid, .num_expert_group = 4, .topk_group = 2};
  EXPECT_THAT(route_all(c, std::vector<float>(8, 1.0F)).ids, ElementsAre(0, 1));
  c.correction_bias.assign(8, 0.0F);
  EXPECT_THAT(route_all(c, {0, 0, 1, 1, 1, 1, 1, 1}).ids, ElementsAre(2, 3));
  // One expert a group: the group's score is its only key, not a sum with -infinity.
  c = {.num_experts = 4, .top_k = 2, .scoring = kSigmoid, .num_expert_group = 4, .topk_group = 2};
  c.correction_bias.assign(4, 0.0F);
  EXPECT_THAT(route_all(c, {0, 1, 2, 3}).ids, ElementsAre(3, 2));
}

TEST(RoutingRules, NonFiniteLogits) {
  const TopKConfig c{.num_experts = 4, .top_k = 2};
  expect_row(route_all(c, {kNan, 1, 0, -1}), {1, 2}, {0.731059F, 0.268941F});
  expect_row(route_all(c, {0, kInf, 0, -kInf}), {1, 0}, {1.0F, 0.0F});
  expect_row(route_all(c, {0, kInf, kInf, 0}), {1, 2}, {0.5F, 0.5F});
  // A masked expert stays masked, whatever its bias; a soft cap does not lift it either.
  TopKConfig biased{.num_experts = 4, .top_k = 2, .scoring = kSigmoid};
  biased.correction_bias = {100.0F, 0, 0, 0};
  EXPECT_THAT(route_all(biased, {-kInf, 1, 0, -1}).ids, ElementsAre(1, 2));
  EXPECT_THAT(route_all(biased, {kNan, 1, 0, -1}).ids, ElementsAre(1, 2));
  TopKConfig capped{.num_experts = 3, .top_k = 1, .logit_soft_cap = 1.0F};
  EXPECT_THAT(route_all(capped, {-kInf, -kInf, -1e30F}).ids, ElementsAre(2));
}

TEST(RoutingRules, DeadRowsWeighNothingAndAreCounted) {
  for (const ScoringFunc scoring :
       {ScoringFunc::kSoftmax, kSigmoid, ScoringFunc::kSqrtSoftplus, ScoringFunc::kTopKSoftmax,
        ScoringFunc::kTopKSigmoid, ScoringFunc::kLogits}) {
    for (const bool is_biased : {false, true}) {
      TopKConfig c{.num_experts = 8, .top_k = 4, .scoring = scoring};
      if (is_biased) c.correction_bias.assign(8, -3.0F);
      std::vector<float> logits(24, kNan);
      for (std::size_t e = 8; e < 16; ++e) logits[e] = -kInf;
      for (std::size_t e = 16; e < 24; ++e) logits[e] = static_cast<float>(e) - 20.0F;
      const Routed routed = route_all(c, logits);
      expect_row(routed, {0, 1, 2, 3}, {0, 0, 0, 0}, 0);
      expect_row(routed, {0, 1, 2, 3}, {0, 0, 0, 0}, 1);
      EXPECT_EQ(routed.num_dead_rows, 2);
      EXPECT_THAT(routed.row_ids(2, 4), ElementsAre(7, 6, 5, 4));
    }
  }
}

TEST(RoutingRules, UnderflowGivesNothingInsteadOfNan) {
  TopKConfig c{.num_experts = 8, .top_k = 8, .scoring = kSigmoid, .renormalize_epsilon = 1e-20F};
  const Routed small = route_all(c, std::vector<float>(8, -50.0F));
  expect_row(small, {0, 1, 2, 3, 4, 5, 6, 7}, std::vector<float>(8, 0.0167093F));
  for (const bool is_biased : {false, true}) {
    c.renormalize_epsilon = 0.0F;
    c.correction_bias.assign(is_biased ? 8 : 0, 0.0F);
    const Routed none = route_all(c, std::vector<float>(8, -120.0F));
    EXPECT_EQ(none.weights, std::vector<float>(8, 0.0F));
    EXPECT_EQ(none.num_dead_rows, 0);
  }
}

TEST(RoutingRules, SqrtSoftplusScores) {
  const TopKConfig c{
      .num_experts = 4, .top_k = 4, .scoring = ScoringFunc::kSqrtSoftplus, .renormalize = false};
  expect_row(route_all(c, {0, 1, 2, 3}), {3, 2, 1, 0},
             {1.746020F, 1.458399F, 1.145976F, 0.832555F});
}

// NaN and infinite rows in between must not change a bit of the others; nor may the batch.
TEST(RoutingRules, RowsAreIndependent) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  constexpr std::size_t kExperts = 160;
  constexpr std::size_t kRows = 9;
  TopKConfig c{.num_experts = kExperts, .top_k = 8, .scoring = ScoringFunc::kSoftmax};
  c.num_expert_group = 8;
  c.topk_group = 3;
  for (const bool is_biased : {false, true}) {
    c.correction_bias.assign(is_biased ? kExperts : 0, 0.125F);
    std::vector<float> logits(kRows * kExperts);
    for (float& v : logits) v = normal(random);
    std::fill_n(logits.begin(), kExperts, kNan);
    logits[4 * kExperts + 7] = kNan;
    logits[5 * kExperts + 9] = kInf;
    std::fill_n(logits.begin() + 8 * kExperts, kExperts, -kInf);
    const Routed all = route_all(c, logits);
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * kExperts);
      const Routed one = route_all(c, {begin, begin + kExperts});
      EXPECT_EQ(one.ids, all.row_ids(row, 8));
      EXPECT_EQ(one.weights, all.row_weights(row, 8));
      std::vector<std::int32_t> sorted = one.ids;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end()) << "row " << row;
    }
  }
}

// Outputs are poisoned before each call: anything unwritten shows.
TEST(RoutingRules, RunsRepeatBitForBit) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const TopKConfig c{.num_experts = 256, .top_k = 8};
  std::vector<float> logits(1024 * 256);
  for (float& v : logits) v = normal(random);
  const Routed first = route_all(c, logits);
  for (int run = 0; run < 10; ++run) {
    const Routed again = route_all(c, logits);
    EXPECT_EQ(again.ids, first.ids);
    EXPECT_EQ(again.weights, first.weights);
  }
  for (const std::int32_t id : first.ids) ASSERT_TRUE(id >= 0 && id < 256);
}

TEST(RoutingCompatMode, RestoresTheNamedQuirks) {
  TopKConfig c{.num_experts = 8, .top_k = 3, .renormalize = false, .routed_scaling_factor = 4.0F};
  c.num_expert_group = 4;
  c.topk_group = 2;
  c.compat = RoutingCompat::kSglang;
  // Dropped groups compete with score 0; without renormalize there is no factor.
  const std::vector<float> underflow = {0, -200, -1, -201, -2, -202, -3, -203};
  expect_row(route_all(c, underflow), {0, 2, 1}, {0.643914F, 0.236883F, 0.0F});
  c.top_k = 4;
  const Routed dropped = route_all(c, {-200, -200, -200, -200, 0, -200, 1, -200});
  EXPECT_THAT(dropped.ids, ElementsAre(6, 4, 0, 1));
  c.compat = RoutingCompat::kOurs;
  EXPECT_THAT(route_all(c, {-200, -200, -200, -200, 0, -200, 1, -200}).ids,
              ElementsAre(6, 4, 5, 7));

  TopKConfig plain{.num_experts = 2, .top_k = 2, .scoring = kSigmoid, .renormalize_epsilon = 1.0F};
  plain.compat = RoutingCompat::kSglang;
  expect_row(route_all(plain, {0, 0}), {0, 1}, {0.5F, 0.5F});
  EXPECT_TRUE(std::isnan(route_all(plain, {-120, -120}).weights[0]));

  RouteOptions padded;
  padded.num_tokens_non_padded = 0;
  const Routed live = route_all(plain, {0, 0}, padded);
  EXPECT_THAT(live.ids, ElementsAre(-1, -1));
  EXPECT_FLOAT_EQ(live.weights[0], 0.5F);

  TopKConfig shared{.num_experts = 8, .top_k = 4, .num_fused_shared_experts = 3};
  shared.compat = RoutingCompat::kSglang;
  std::vector<std::int32_t> seen;
  for (float x = 0.0F; x < 8.0F; x += 1.0F) {
    std::vector<float> logits(8, 0.0F);
    logits[static_cast<std::size_t>(x)] = 1.0F;
    const Routed routed = route_all(shared, logits);
    EXPECT_EQ(routed.ids, route_all(shared, logits).ids);
    for (std::size_t j = 1; j < 4; ++j) {
      EXPECT_TRUE(routed.ids[j] >= 8 && routed.ids[j] < 11);
      seen.push_back(routed.ids[j]);
    }
  }
  EXPECT_THAT(seen, testing::IsSupersetOf({8, 9, 10}));
}

}  // namespace
}  // namespace fusedmoe::test
