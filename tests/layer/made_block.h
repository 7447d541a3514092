// A small MoE block whose checkpoint the test writes itself.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fusedmoe/layer.h"
#include "reference/layer_data.h"

namespace fusedmoe::test {

/// What the block computes; weights are bf16 in the file, one tensor an expert and projection.
struct MadeBlockData {
  LayerData routed;                 ///< its config fixes sizes, experts and top_k
  std::vector<double> router;       ///< [E, H], stored as F32
  std::optional<LayerData> shared;  ///< one expert, of any width
  std::vector<double> shared_gate;  ///< [1, H]; empty: none
};

/// Random experts; router of deviation 1 / sqrt(H); a gated shared expert of width 1.5 I.
MadeBlockData random_block(const FusedMoEConfig& config, std::uint64_t seed);

/// Writes the file to a folder of its own, which goes away with the object.
class MadeBlock {
 public:
  explicit MadeBlock(const MadeBlockData& data);
  ~MadeBlock();
  MadeBlock(const MadeBlock&) = delete;
  MadeBlock& operator=(const MadeBlock&) = delete;

  const MoeLayerDescription& description() const { return description_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  /// Planned and loaded.
  MoeBlock load(DType hidden_dtype, std::int64_t max_num_tokens,
                const ParallelLayout& parallel = {}, int num_threads = 2) const;

 private:
  std::filesystem::path folder_;
  MoeLayerDescription description_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

/// Everything that a forward gives.
struct MadeResult {
  std::vector<double> output;
  std::vector<float> logits, weights;
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> tokens_per_expert;
  ResultState state = ResultState::kReduced;
};

/// `inputs.hidden_states` says the shape; the workspace is full of NaN before.
MadeResult run_block(const MoeBlock& block, const MoeBlockInputs& inputs);

}  // namespace fusedmoe::test
