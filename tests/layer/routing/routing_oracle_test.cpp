// route() against a plain double-precision program, over scoring x groups x bias x renormalize.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "layer/routing/routing_run.h"

namespace fusedmoe::test {
namespace {

using Doubles = std::vector<double>;

Doubles scores_of(ScoringFunc scoring, const Doubles& x) {
  Doubles s(x.size());
  const double max = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (const double v : x) sum += std::exp(v - max);
  for (std::size_t e = 0; e < x.size(); ++e) {
    switch (scoring) {
      case ScoringFunc::kSoftmax:
        s[e] = std::exp(x[e] - max) / sum;
        break;
      case ScoringFunc::kSigmoid:
        s[e] = 1.0 / (1.0 + std::exp(-x[e]));
        break;
      case ScoringFunc::kSqrtSoftplus:
        s[e] = std::sqrt(std::log1p(std::exp(x[e])));
        break;
      default:
        s[e] = x[e];
    }
  }
  return s;
}

std::vector<std::size_t> largest(const Doubles& keys, std::vector<std::size_t> from,
                                 std::size_t count) {
  std::stable_sort(from.begin(), from.end(),
                   [&](std::size_t a, std::size_t b) { return keys[a] > keys[b]; });
  from.resize(count);
  return from;
}

std::vector<std::size_t> count_up(std::size_t n) {
  std::vector<std::size_t> v(n);
  std::iota(v.begin(), v.end(), std::size_t{0});
  return v;
}

std::vector<std::size_t> choose(const TopKConfig& c, const Doubles& keys) {
  const auto groups = static_cast<std::size_t>(c.num_expert_group);
  const std::size_t size = keys.size() / groups;
  Doubles group_keys(groups);
  for (std::size_t g = 0; g < groups; ++g) {
    Doubles sorted(keys.begin() + static_cast<std::ptrdiff_t>(g * size),
                   keys.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(sorted.rbegin(), sorted.rend());
    const bool sums_two = !c.correction_bias.empty() && size > 1;
    group_keys[g] = sums_two ? sorted[0] + sorted[1] : sorted[0];
  }
  std::vector<std::size_t> candidates;
  std::vector<std::size_t> kept =
      largest(group_keys, count_up(groups), static_cast<std::size_t>(c.topk_group));
  std::sort(kept.begin(), kept.end());
  for (const std::size_t g : kept) {
    for (std::size_t e = g * size; e < (g + 1) * size; ++e) candidates.push_back(e);
  }
  return largest(keys, candidates, static_cast<std::size_t>(c.top_k));
}

Doubles weights_of(const TopKConfig& c, const Doubles& x, const Doubles& s,
                   const std::vector<std::size_t>& ids) {
  Doubles w;
  for (const std::size_t id : ids) w.push_back(s[id]);
  if (c.scoring == ScoringFunc::kTopKSigmoid) w = scores_of(ScoringFunc::kSigmoid, w);
  if (c.scoring == ScoringFunc::kTopKSoftmax) w = scores_of(ScoringFunc::kSoftmax, w);
  if (c.scoring == ScoringFunc::kLogits) {
    for (std::size_t j = 0; j < w.size(); ++j) w[j] = x[ids[j]];
  }
  double d = 1.0;
  if (c.renormalize && c.scoring != ScoringFunc::kTopKSoftmax) {
    double sum = 0.0;
    double powers = 0.0;
    for (const double v : w) {
      sum += v;
      powers += std::pow(std::fabs(v), static_cast<double>(c.renormalize_p));
    }
    d = sum + static_cast<double>(c.renormalize_epsilon);
    if (c.renormalize_form == RenormalizeForm::kFloor) {
      d = std::max(sum, static_cast<double>(c.renormalize_epsilon));
    }
    if (c.renormalize_form == RenormalizeForm::kPNorm) {
      d = std::pow(powers, 1.0 / static_cast<double>(c.renormalize_p));
    }
  }
  for (std::size_t j = 0; j < w.size(); ++j) {
    w[j] = w[j] / d * static_cast<double>(c.routed_scaling_factor);
    if (!c.per_expert_scale.empty()) w[j] *= static_cast<double>(c.per_expert_scale[ids[j]]);
  }
  return w;
}

// The k-th and the next key may be closer than rounding: then the choice is not determined.
bool is_near_tie(const Doubles& keys, const std::vector<std::size_t>& ids) {
  for (std::size_t j = 0; j < ids.size(); ++j) {
    for (std::size_t e = 0; e < keys.size(); ++e) {
      if (e != ids[j] && std::fabs(keys[e] - keys[ids[j]]) < 1e-6) return true;
    }
  }
  return false;
}

void check(const TopKConfig& c, std::mt19937& random) {
  const auto num_experts = static_cast<std::size_t>(c.num_experts);
  const auto k = static_cast<std::size_t>(c.top_k);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  constexpr std::size_t kRows = 12;
  std::vector<float> logits(kRows * num_experts);
  for (float& v : logits) v = normal(random);
  const Routed routed = route_all(c, logits);
  std::size_t num_compared = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    Doubles x(num_experts);
    for (std::size_t e = 0; e < num_experts; ++e) {
      x[e] = logits[row * num_experts + e];
      const double cap = c.logit_soft_cap;
      if (cap > 0.0) x[e] = cap * std::tanh(x[e] / cap);
    }
    const Doubles s = scores_of(c.scoring, x);
    Doubles keys = x;
    if (!c.correction_bias.empty()) {
      for (std::size_t e = 0; e < num_experts; ++e) {
        keys[e] = s[e] + static_cast<double>(c.correction_bias[e]);
      }
    }
    const std::vector<std::size_t> ids = choose(c, keys);
    if (is_near_tie(keys, ids)) continue;
    ++num_compared;
    const Doubles w = weights_of(c, x, s, ids);
    for (std::size_t j = 0; j < k; ++j) {
      ASSERT_EQ(routed.ids[row * k + j], static_cast<std::int32_t>(ids[j])) << "row " << row;
      ASSERT_NEAR(routed.weights[row * k + j], w[j], 4e-6 * std::max(1e-3, std::fabs(w[j])));
    }
  }
  EXPECT_GT(num_compared, kRows / 4);
}

struct Form {
  bool renormalize;
  RenormalizeForm form;
  float value;
};

TEST(RoutingOracle, EveryCombinationAgreesWithDoublePrecision) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(-0.4F, 0.6F);
  const Form forms[] = {
      {false, RenormalizeForm::kPlusEpsilon, 0.0F}, {true, RenormalizeForm::kPlusEpsilon, 1e-2F},
      {true, RenormalizeForm::kFloor, 0.7F},        {true, RenormalizeForm::kPNorm, 1.0F},
      {true, RenormalizeForm::kPNorm, 2.0F},        {true, RenormalizeForm::kPNorm, 3.5F}};
  const std::pair<std::int64_t, std::int64_t> groupings[] = {{1, 1}, {4, 2}, {8, 8}, {16, 7}};
  for (int scoring = 0; scoring <= static_cast<int>(ScoringFunc::kLogits); ++scoring) {
    for (const auto& [groups, kept] : groupings) {
      for (const bool is_biased : {false, true}) {
        for (const Form& form : forms) {
          // Sums of logits of both signs cancel: nothing to compare.
          if (form.renormalize && static_cast<ScoringFunc>(scoring) == ScoringFunc::kLogits)
            continue;
          TopKConfig c{.num_experts = 64, .top_k = 6, .scoring = static_cast<ScoringFunc>(scoring)};
          c.renormalize = form.renormalize;
          c.renormalize_form = form.form;
          (form.form == RenormalizeForm::kPNorm ? c.renormalize_p : c.renormalize_epsilon) =
              form.value;
          c.routed_scaling_factor = 2.5F;
          c.num_expert_group = groups;
          c.topk_group = kept;
          c.correction_bias.resize(is_biased ? 64 : 0);
          for (float& b : c.correction_bias) b = uniform(random);
          SCOPED_TRACE(testing::Message()
                       << "scoring " << scoring << " groups " << groups << " bias " << is_biased
                       << " form " << static_cast<int>(form.form) << " value " << form.value);
          check(c, random);
        }
      }
    }
  }
}

TEST(RoutingOracle, SoftCapAndPerExpertScale) {
  std::mt19937 random(12);
  TopKConfig c{.num_experts = 40, .top_k = 5, .logit_soft_cap = 3.0F};
  for (int e = 0; e < 40; ++e) c.per_expert_scale.push_back(0.5F + 0.1F * static_cast<float>(e));
  check(c, random);
  c.scoring = ScoringFunc::kTopKSoftmax;
  check(c, random);
}

// Expert counts around every power of two and block size, winner at the last index.
TEST(RoutingOracle, EveryNumberOfExperts) {
  std::mt19937 random(13);
  for (const std::int64_t e : {1,   2,   3,   31,  32,  33,   60,   64,   72,   160,  255, 256,
                               257, 288, 384, 511, 512, 1023, 1024, 1025, 4095, 4096, 4097}) {
    for (const std::int64_t k : {std::int64_t{1}, std::min<std::int64_t>(e, 10)}) {
      for (const std::int64_t groups : {1, 4, 8}) {
        if (e % groups != 0 || (groups + 1) / 2 * (e / groups) < k) continue;
        TopKConfig c{.num_experts = e, .top_k = k};
        c.num_expert_group = groups;
        c.topk_group = (groups + 1) / 2;
        SCOPED_TRACE(testing::Message() << "E " << e << " k " << k << " groups " << groups);
        std::vector<float> logits(static_cast<std::size_t>(e));
        std::normal_distribution<float> normal(0.0F, 1.0F);
        for (float& v : logits) v = normal(random);
        logits.back() = 50.0F;
        EXPECT_EQ(route_all(c, logits).ids[0], e - 1);
        c.scoring = ScoringFunc::kSigmoid;
        c.correction_bias.assign(static_cast<std::size_t>(e), 0.25F);
        const Routed routed = route_all(c, logits);
        for (const std::int32_t id : routed.ids) EXPECT_TRUE(id >= 0 && id < e);
      }
    }
  }
}

}  // namespace
}  // namespace fusedmoe::test
