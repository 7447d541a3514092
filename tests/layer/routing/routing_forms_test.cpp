// What surrounds the rules: dtypes, padding, remap, hash tables, method names, forms, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/half.h"
#include "fusedmoe/error.h"
#include "layer/routing/routing_run.h"

namespace fusedmoe::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(RoutingForms, HalfLogitsAndRowStrides) {
  const TopKConfig c{.num_experts = 3, .top_k = 2};
  const std::vector<float> values = {0.5F, 2.0F, 1.0F, 99.0F, 3.0F, -1.0F, 0.25F, 99.0F};
  const Routed expected = route_all(c, {0.5F, 2.0F, 1.0F, 3.0F, -1.0F, 0.25F});
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    std::vector<std::byte> bytes(values.size() * 4);
    for (std::size_t i = 0; i < values.size(); ++i) {
      store_from_f32(bytes.data(), dtype, static_cast<std::int64_t>(i), values[i]);
    }
    std::vector<std::int32_t> ids(4);
    std::vector<float> weights(4);
    TopKOutput out{ids, weights, 0};
    route(c, {bytes.data(), dtype, Shape{2, 3}, 4}, out);
    EXPECT_EQ(ids, expected.ids);
    EXPECT_EQ(weights, expected.weights);
  }
}

TEST(RoutingForms, NoTokens) {
  const Routed routed = route_all({.num_experts = 8, .top_k = 2}, {});
  EXPECT_TRUE(routed.ids.empty());
}

TEST(RoutingForms, PaddingComesAfterTheRemap) {
  const TopKConfig c{.num_experts = 3, .top_k = 2};
  const std::vector<std::int32_t> physical = {10, 20, 30};
  RouteOptions options{.num_tokens_non_padded = 1};
  options.logical_to_physical = physical;
  const Routed routed = route_all(c, {0, 2, 1, 0, 2, 1}, options);
  EXPECT_THAT(routed.ids, ElementsAre(20, 30, -1, -1));
  EXPECT_EQ(routed.row_weights(1, 2), std::vector<float>(2, 0.0F));
  options.num_tokens_non_padded = 5;
  EXPECT_THAT(route_all(c, {0, 2, 1, 0, 2, 1}, options).ids, ElementsAre(20, 30, 20, 30));
}

template <class Id>
Routed route_by_table(const TopKConfig& c, DType dtype, const std::vector<Id>& tokens) {
  const std::vector<Id> table = {3, 1, 2, 2, 0, 7, -1, 0};  // [4, 2]; 7 and -1 are no experts
  RouteOptions options;
  options.hash_table = {table.data(), dtype, Shape{4, 2}};
  options.input_ids = {tokens.data(), dtype, Shape{static_cast<std::int64_t>(tokens.size())}};
  std::vector<float> logits;
  for (std::size_t t = 0; t < tokens.size(); ++t) logits.insert(logits.end(), {0, 1, 2, 3});
  return route_all(c, logits, options);
}

TEST(RoutingForms, HashTablesChooseAndScoresWeigh) {
  const TopKConfig c{.num_experts = 4, .top_k = 2, .scoring = ScoringFunc::kSqrtSoftplus};
  const Routed narrow = route_by_table<std::int32_t>(c, DType::kI32, {0, 1, 2, 3, 9, -5});
  const Routed wide = route_by_table<std::int64_t>(c, DType::kI64, {0, 1, 2, 3, 9, -5});
  EXPECT_EQ(narrow.ids, wide.ids);
  EXPECT_EQ(narrow.weights, wide.weights);
  EXPECT_THAT(narrow.ids, ElementsAre(3, 1, 2, 2, 0, -1, -1, 0, -1, -1, -1, -1));
  const float sum = 1.746020F + 1.145976F;
  EXPECT_NEAR(narrow.weights[0], 1.746020F / sum, 1e-6F);
  EXPECT_NEAR(narrow.weights[1], 1.145976F / sum, 1e-6F);
  EXPECT_THAT((std::vector<float>{narrow.weights.begin() + 2, narrow.weights.end()}),
              ElementsAre(0.5F, 0.5F, 1, 0, 0, 1, 0, 0, 0, 0));
}

TEST(RoutingForms, MethodsAreFoundByNameOnly) {
  using enum RoutingMethodType;
  for (const RoutingMethodType m :
       {kDefault, kRenormalize, kDeepSeekV3, kLlama4, kRenormalizeNaive, kTopK, kSigmoidRenorm,
        kMiniMax2, kSigmoid, kTopKSigmoid, kUnspecified}) {
    EXPECT_EQ(routing_method_from_name(routing_method_name(m)), m);
  }
  EXPECT_FALSE(routing_method_from_name("6").has_value());
  EXPECT_THROW(topk_config_for(kUnspecified, 8, 2), Error);
  const std::vector<float> logits = {0, 2, 1, -1};
  const auto first_weight = [&](RoutingMethodType m) {
    return route_all(topk_config_for(m, 4, 2), logits).weights[0];
  };
  EXPECT_NEAR(first_weight(kDefault), 0.643914F, 1e-6F);
  EXPECT_NEAR(first_weight(kRenormalize), 0.731059F, 1e-6F);
  EXPECT_NEAR(first_weight(kRenormalizeNaive), 0.731059F, 1e-6F);
  EXPECT_NEAR(first_weight(kDeepSeekV3), 0.880797F / (0.880797F + 0.731059F), 1e-6F);
  EXPECT_NEAR(first_weight(kMiniMax2), 0.880797F / (0.880797F + 0.731059F), 1e-6F);
  EXPECT_NEAR(first_weight(kSigmoidRenorm), 0.880797F / (0.880797F + 0.731059F), 1e-6F);
  EXPECT_NEAR(first_weight(kSigmoid), 0.880797F, 1e-6F);
  EXPECT_NEAR(first_weight(kTopKSigmoid), 0.880797F, 1e-6F);
  EXPECT_NEAR(first_weight(kLlama4), 0.880797F, 1e-6F);
  EXPECT_EQ(first_weight(kTopK), 2.0F);
}

template <class Id>
void expect_sorted(DType dtype) {
  const std::vector<Id> ids = {2, -1, -1, -1, 0, 3, 7, 1, 1, 1};
  std::vector<float> weights;
  for (std::size_t s = 0; s < ids.size(); ++s) weights.push_back(static_cast<float>(s) * 0.5F);
  const ExpertSortedTopK sorted = sort_by_expert(
      {{ids.data(), dtype, Shape{5, 2}}, {weights.data(), DType::kF32, Shape{5, 2}}}, 4);
  EXPECT_THAT(sorted.expert_offsets, ElementsAre(0, 1, 4, 5, 6));
  EXPECT_THAT(sorted.gather_index, ElementsAre(4, 7, 8, 9, 0, 5));
  EXPECT_THAT(sorted.scatter_index, ElementsAre(4, -1, -1, -1, 0, 5, -1, 1, 2, 3));
  EXPECT_THAT(sorted.gate_scale, ElementsAre(2.0F, 3.5F, 4.0F, 4.5F, 0.0F, 2.5F));
}

TEST(RoutingForms, ExpertSortedFormIsAStableSort) {
  expect_sorted<std::int32_t>(DType::kI32);
  expect_sorted<std::int64_t>(DType::kI64);
  const TopKView none{{nullptr, DType::kI32, Shape{0, 2}}, {nullptr, DType::kF32, Shape{0, 2}}};
  EXPECT_THAT(sort_by_expert(none, 2).expert_offsets, ElementsAre(0, 0, 0));
  const TopKView flat{{nullptr, DType::kI32, Shape{0}}, {nullptr, DType::kF32, Shape{0}}};
  EXPECT_THROW(sort_by_expert(flat, 2), Error);
}

TEST(RoutingForms, BypassedFormRoutesLater) {
  const TopKConfig c{.num_experts = 3, .top_k = 2};
  const std::vector<float> logits = {0, 2, 1};
  const std::vector<float> hidden(4);
  std::vector<std::int32_t> ids(2);
  std::vector<float> weights(2);
  TopKOutput out{ids, weights, 0};
  BypassedTopK bypassed{
      {hidden.data(), DType::kF32, Shape{1, 4}}, {logits.data(), DType::kF32, Shape{1, 3}}, &c, {}};
  materialize(bypassed, out);
  EXPECT_EQ(ids, route_all(c, logits).ids);
  EXPECT_EQ(weights, route_all(c, logits).weights);
  bypassed.hidden_states.shape = Shape{2, 4};
  EXPECT_THROW(materialize(bypassed, out), Error);
}

std::string refusal(const TopKConfig& c, const TensorView& logits, std::size_t outputs,
                    const RouteOptions& options = {}) {
  std::vector<std::int32_t> ids(outputs, 77);
  std::vector<float> weights(outputs, 77.0F);
  TopKOutput out{ids, weights, 0};
  try {
    route(c, logits, out, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(ids, testing::Each(77));  // nothing is written
    EXPECT_THAT(weights, testing::Each(77.0F));
    return error.what();
  }
  return "";
}

TEST(RoutingForms, RefusalsNameExpectedAndGot) {
  const TopKConfig c{.num_experts = 3, .top_k = 2};
  const std::vector<float> x(6);
  const auto logits = [&](Shape shape, DType dtype = DType::kF32, std::int64_t stride = 0) {
    return TensorView{x.data(), dtype, shape, stride};
  };
  EXPECT_THAT(refusal(c, logits({2, 4}), 4),
              HasSubstr("expected [num_tokens, 3] F32, BF16 or F16, got [2, 4]"));
  EXPECT_THAT(refusal(c, logits({2, 3}, DType::kI32), 4), HasSubstr("I32"));
  EXPECT_THAT(refusal(c, logits({6}), 4), HasSubstr("got [6]"));
  EXPECT_THAT(refusal(c, logits({2, 3}, DType::kF32, 2), 4),
              HasSubstr("row stride of at least 3, got 2"));
  EXPECT_THAT(refusal(c, {nullptr, DType::kF32, Shape{2, 3}}, 4), HasSubstr("null"));
  EXPECT_THAT(refusal(c, logits({2, 3}), 3), HasSubstr("2 x 2 = 4 elements, got 3"));
  RouteOptions options;
  const std::vector<std::int32_t> four(4);
  options.logical_to_physical = four;
  EXPECT_THAT(refusal(c, logits({2, 3}), 4, options),
              HasSubstr("expected 3 entries or none, got 4"));
  options = {};
  options.hash_table = {four.data(), DType::kI32, Shape{2, 2}};
  EXPECT_THAT(refusal(c, logits({2, 3}), 4, options), HasSubstr("input_ids: expected [2]"));
  options.hash_table.shape = Shape{4, 1};
  EXPECT_THAT(refusal(c, logits({2, 3}), 4, options), HasSubstr("hash_table: expected [vocab, 2]"));
}

TEST(RoutingForms, ConfigurationsAreCheckedInWords) {
  EXPECT_TRUE(validate({.num_experts = 8, .top_k = 8}).empty());
  const auto problems = [](auto change) {
    TopKConfig c{.num_experts = 8, .top_k = 2};
    change(c);
    return validate(c);
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(problems([](auto& c) { c.num_experts = 0; }), Contains(HasSubstr("num_experts")));
  EXPECT_THAT(problems([](auto& c) { c.top_k = 9; }),
              Contains(HasSubstr("top_k: expected 1 .. 8")));
  EXPECT_THAT(problems([](auto& c) { c.top_k = 0; }), Contains(HasSubstr("top_k")));
  EXPECT_THAT(problems([](auto& c) { c.num_fused_shared_experts = 2; }),
              Contains(HasSubstr("top_k: expected 3 .. 10")));
  EXPECT_THAT(problems([](auto& c) { c.num_expert_group = 3; }),
              Contains(HasSubstr("divisor of 8")));
  EXPECT_THAT(problems([](auto& c) { c.topk_group = 2; }), Contains(HasSubstr("topk_group")));
  EXPECT_THAT(problems([](auto& c) { c.num_expert_group = 8; }),
              Contains(HasSubstr("at least 2 experts, got 1")));
  EXPECT_THAT(problems([](auto& c) { c.correction_bias.assign(7, 0.0F); }),
              Contains(HasSubstr("8 values or none, got 7")));
  EXPECT_THAT(problems([&](auto& c) { c.correction_bias = {0, 0, 0, nan, 0, 0, 0, 0}; }),
              Contains(HasSubstr("correction_bias of expert 3")));
  EXPECT_THAT(problems([&](auto& c) { c.routed_scaling_factor = nan; }),
              Contains(HasSubstr("routed_scaling_factor")));
  EXPECT_THAT(problems([](auto& c) { c.renormalize_epsilon = -1.0F; }),
              Contains(HasSubstr("renormalize_epsilon")));
  EXPECT_THAT(problems([](auto& c) { c.renormalize_p = 0.0F; }),
              Contains(HasSubstr("renormalize_p")));
  EXPECT_THAT(problems([](auto& c) { c.scoring = ScoringFunc::kSparseMixer; }),
              Contains(HasSubstr("renormalize")));
}

}  // namespace
}  // namespace fusedmoe::test
