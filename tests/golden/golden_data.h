// The recorded layers under tests/data/golden: inputs, routing and outputs of public models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fusedmoe/checkpoint.h"

namespace fusedmoe::test {

/// All folders with a recording, sorted.
std::vector<std::string> golden_folders();
std::filesystem::path golden_path(const std::string& folder);

/// One recorded layer; absent parts are empty.
struct GoldenLayer {
  int layer = 0;
  std::int64_t num_tokens = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_experts = 0;  ///< columns of the logits
  std::int64_t top_k = 0;
  std::vector<float> input, router_logits, topk_weights, output, routed_only;
  std::vector<std::int32_t> topk_ids, input_ids;
};

std::vector<GoldenLayer> read_golden(const std::string& folder);

}  // namespace fusedmoe::test
