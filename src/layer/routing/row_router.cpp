// Scores, selection and weights of one row, in the order of docs/routing.md.
#include "layer/routing/row_router.h"

#include <algorithm>
#include <limits>

#include "layer/routing/top_list.h"

namespace fusedmoe::routing {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

}  // namespace

RowRouter::RowRouter(const TopKConfig& config, const RowScratch& scratch)
    : config_(config),
      ops_(best_score_ops()),
      s_(scratch),
      num_routed_(config.top_k - config.num_fused_shared_experts),
      padded_(padded_size(config.num_experts)) {}

bool RowRouter::begin_row() {
  std::fill(s_.logits + config_.num_experts, s_.logits + padded_, kMinusInfinity);
  ops_.clean(s_.logits, padded_);
  if (config_.logit_soft_cap > 0.0F) ops_.soft_cap(s_.logits, config_.logit_soft_cap, padded_);
  row_max_ = ops_.row_max(s_.logits, padded_);
  is_dead_ = row_max_ == kMinusInfinity;
  softmax_sum_ = 0.0F;
  return !is_dead_;
}

// The score that a bias is added to. Functions that choose by logit have the logit as score.
void RowRouter::score_all() {
  switch (config_.scoring) {
    case ScoringFunc::kSoftmax:
      softmax_sum_ = ops_.softmax_terms(s_.logits, row_max_, s_.scores, padded_);
      std::copy_n(s_.scores, padded_, s_.keys);
      ops_.divide(s_.keys, softmax_sum_, padded_);
      return;
    case ScoringFunc::kSigmoid:
      ops_.sigmoid(s_.logits, s_.keys, padded_);
      return;
    case ScoringFunc::kSqrtSoftplus:
      ops_.sqrt_softplus(s_.logits, s_.keys, padded_);
      return;
    case ScoringFunc::kTopKSoftmax:
    case ScoringFunc::kTopKSigmoid:
    case ScoringFunc::kLogits:
    case ScoringFunc::kSparseMixer:
      std::copy_n(s_.logits, padded_, s_.keys);
      return;
  }
}

void RowRouter::select(std::int32_t* ids) {
  if (is_dead_) {
    for (std::int64_t j = 0; j < num_routed_; ++j) ids[j] = static_cast<std::int32_t>(j);
    return;
  }
  if (config_.scoring == ScoringFunc::kSparseMixer) return select_sparse_mixer(ids);
  const bool is_grouped = config_.num_expert_group > 1;
  const bool keys_are_scores =
      is_biased() || (is_grouped && config_.compat == RoutingCompat::kSglang);
  const float* keys = s_.logits;
  if (keys_are_scores) {
    score_all();
    keys = s_.keys;
  }
  if (is_biased()) {
    ops_.biased_keys(s_.logits, s_.keys, config_.correction_bias.data(), s_.keys,
                     config_.num_experts, padded_);
  }
  if (is_grouped) return select_from_groups(keys, ids);
  TopList list(s_.list_keys, ids, num_routed_);
  list.offer_range(keys, 0, config_.num_experts);
}

// Without bias the largest key of the group; with bias the sum of its two largest (of its only key
// when it has one).
float RowRouter::group_score(const float* keys, std::int64_t group) const {
  const std::int64_t size = config_.num_experts / config_.num_expert_group;
  float first = kMinusInfinity;
  float second = kMinusInfinity;
  for (std::int64_t e = group * size; e < (group + 1) * size; ++e) {
    if (keys[e] > first) {
      second = first;
      first = keys[e];
    } else if (keys[e] > second) {
      second = keys[e];
    }
  }
  return is_biased() && size > 1 ? first + second : first;
}

void RowRouter::select_from_groups(const float* keys, std::int32_t* ids) {
  const std::int64_t num_groups = config_.num_expert_group;
  const std::int64_t size = config_.num_experts / num_groups;
  std::int32_t* const kept_end = s_.group_ids + config_.topk_group;
  TopList groups(s_.list_keys, s_.group_ids, config_.topk_group);
  for (std::int64_t g = 0; g < num_groups; ++g) {
    groups.offer(group_score(keys, g), static_cast<std::int32_t>(g));
  }
  std::sort(s_.group_ids, kept_end);  // experts are offered in ascending order
  if (config_.compat == RoutingCompat::kSglang && !is_biased()) {
    const std::int32_t* kept = s_.group_ids;
    for (std::int64_t g = 0; g < num_groups; ++g) {
      if (kept != kept_end && *kept == g) {
        ++kept;
      } else {
        std::fill_n(s_.keys + g * size, size, 0.0F);
      }
    }
    TopList all(s_.list_keys, ids, num_routed_);
    return all.offer_range(s_.keys, 0, config_.num_experts);
  }
  TopList list(s_.list_keys, ids, num_routed_);
  for (const std::int32_t* g = s_.group_ids; g != kept_end; ++g) {
    list.offer_range(keys, *g * size, (*g + 1) * size);
  }
}

void RowRouter::finish(std::int32_t* ids, float* weights) {
  if (is_dead_) {
    std::fill_n(s_.weights, num_routed_, 0.0F);
  } else if (config_.scoring != ScoringFunc::kSparseMixer) {
    weigh_chosen(ids);
  }
  normalize();
  const bool has_scale = !config_.per_expert_scale.empty();
  for (std::int64_t j = 0; j < num_routed_; ++j) {
    const bool is_expert = ids[j] >= 0 && ids[j] < config_.num_experts;
    if (!is_expert) ids[j] = -1;
    if (is_expert && has_scale) {
      s_.weights[j] *= config_.per_expert_scale[static_cast<std::size_t>(ids[j])];
    }
    weights[j] = s_.weights[j];
  }
  append_shared(ids, weights);
}

// Raw weights of the chosen: their scores without bias. An id outside [0, E) counts as a logit of
// -infinity, so it has weight 0 and no part in any sum.
void RowRouter::weigh_chosen(const std::int32_t* ids) {
  const std::int64_t padded_columns = padded_size(num_routed_);
  const auto logit = [&](std::int32_t id) {
    return id >= 0 && id < config_.num_experts ? s_.logits[id] : kMinusInfinity;
  };
  for (std::int64_t j = 0; j < num_routed_; ++j) s_.chosen[j] = logit(ids[j]);
  std::fill(s_.chosen + num_routed_, s_.chosen + padded_columns, kMinusInfinity);
  switch (config_.scoring) {
    case ScoringFunc::kSoftmax:
      if (softmax_sum_ == 0.0F) {
        softmax_sum_ = ops_.softmax_terms(s_.logits, row_max_, s_.scores, padded_);
      }
      for (std::int64_t j = 0; j < num_routed_; ++j) {
        const bool is_finite = s_.chosen[j] > kMinusInfinity;
        s_.weights[j] = is_finite ? s_.scores[ids[j]] / softmax_sum_ : 0.0F;
      }
      return;
    case ScoringFunc::kSigmoid:
    case ScoringFunc::kTopKSigmoid:
      ops_.sigmoid(s_.chosen, s_.weights, padded_columns);
      return;
    case ScoringFunc::kSqrtSoftplus:
      ops_.sqrt_softplus(s_.chosen, s_.weights, padded_columns);
      return;
    case ScoringFunc::kTopKSoftmax:
      return weigh_topk_softmax();
    case ScoringFunc::kLogits:
    case ScoringFunc::kSparseMixer:
      for (std::int64_t j = 0; j < num_routed_; ++j) {
        s_.weights[j] = s_.chosen[j] > kMinusInfinity ? s_.chosen[j] : 0.0F;
      }
      return;
  }
}

void RowRouter::weigh_topk_softmax() {
  const std::int64_t padded_columns = padded_size(num_routed_);
  const float max = ops_.row_max(s_.chosen, padded_columns);
  if (max == kMinusInfinity) {  // ids from a table, all of them masked
    std::fill_n(s_.weights, num_routed_, 0.0F);
    return;
  }
  ops_.softmax_terms(s_.chosen, max, s_.weights, padded_columns);
  float sum = 0.0F;
  for (std::int64_t j = 0; j < num_routed_; ++j) sum += s_.weights[j];
  for (std::int64_t j = 0; j < num_routed_; ++j) s_.weights[j] /= sum;
}

}  // namespace fusedmoe::routing
