// A FusedMoE that is planned, loaded and ready, with its workspace, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusedmoe/layer.h"
#include "reference/layer_data.h"

namespace fusedmoe::test {

/// A pool of this many threads, shared by the whole program.
Executor& shared_pool(int num_threads);

class PlannedLayer {
 public:
  /// @param kernel "" for the best one.
  PlannedLayer(const LayerData& data, std::int64_t max_num_tokens, const std::string& kernel = "",
               int num_threads = 2);

  FusedMoE& layer() noexcept { return layer_; }
  Workspace& workspace() noexcept { return *workspace_; }

  /// Runs a batch in a workspace and an output that are full of NaN, checks that nothing was
  /// written beside the output, and returns its bytes.
  /// @throws std::runtime_error when memory beside the output was written.
  std::vector<std::byte> run(const BatchData& batch);
  std::vector<double> run_doubles(const BatchData& batch);

 private:
  FusedMoE layer_;
  std::unique_ptr<Workspace> workspace_;
};

/// Loads every local expert of the rank that `data.config` describes.
void load_all(FusedMoE& layer, const LayerData& data);

/// The bytes of rows [first, first + count) of a result with `num_rows` rows.
std::vector<std::byte> take_rows(const std::vector<std::byte>& result, std::int64_t num_rows,
                                 std::int64_t first, std::int64_t count = 1);

}  // namespace fusedmoe::test
