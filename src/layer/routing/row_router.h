// Routing of one row: cleaned logits -> chosen ids and weights (docs/routing.md).
#pragma once

#include <cstdint>

#include "fusedmoe/routing.h"
#include "layer/routing/score_ops.h"

namespace fusedmoe::routing {

/// Scratch of one thread, carved from memory that the caller owns. `size` is padded_size(E).
struct RowScratch {
  static constexpr std::int64_t kNumFloatArrays = 6;

  RowScratch(float* floats, std::int32_t* ints, std::int64_t size)
      : logits(floats),
        scores(floats + size),
        keys(floats + 2 * size),
        chosen(floats + 3 * size),
        weights(floats + 4 * size),
        list_keys(floats + 5 * size),
        group_ids(ints) {}

  float* logits;
  float* scores;
  float* keys;
  float* chosen;     ///< logits of the chosen, by column
  float* weights;    ///< weights of the routed columns
  float* list_keys;  ///< keys inside a TopList; then group scores
  std::int32_t* group_ids;
};

/// Applies one configuration, which must be valid, to one row after another. Rows do not influence
/// each other: all state is written before it is read.
class RowRouter {
 public:
  RowRouter(const TopKConfig& config, const RowScratch& scratch);

  /// Where the caller puts the E raw logits of the next row.
  float* logits() { return s_.logits; }

  /// Cleans the logits. False: the row is dead (no finite logit).
  bool begin_row();

  /// Fills ids[0, k_r) by selection. For a dead row: 0, 1, ...
  void select(std::int32_t* ids);

  /// Writes all top_k weights, and the ids of the shared columns. Routed ids outside [0, E) are
  /// rewritten to -1 and get weight 0.
  void finish(std::int32_t* ids, float* weights);

 private:
  bool is_biased() const { return !config_.correction_bias.empty(); }
  void score_all();
  void select_from_groups(const float* keys, std::int32_t* ids);
  float group_score(const float* keys, std::int64_t group) const;
  void select_sparse_mixer(std::int32_t* ids);
  float sparse_mixer_weight(const float* x, std::int32_t best);
  void weigh_chosen(const std::int32_t* ids);
  void weigh_topk_softmax();
  void normalize();
  float divisor() const;
  void append_shared(std::int32_t* ids, float* weights) const;

  const TopKConfig& config_;
  const ScoreOps& ops_;
  RowScratch s_;
  std::int64_t num_routed_;  ///< k_r: routed columns
  std::int64_t padded_;
  bool is_dead_ = false;
  float row_max_ = 0.0F;
  float softmax_sum_ = 0.0F;  ///< 0 until `scores` holds the softmax terms of this row
};

}  // namespace fusedmoe::routing
