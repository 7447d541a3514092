// Runs route() on plain vectors, into poisoned memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "fusedmoe/routing.h"

namespace fusedmoe::test {

struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  std::int64_t num_dead_rows = 0;

  std::vector<std::int32_t> row_ids(std::size_t row, std::size_t k) const {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(row * k);
    return {begin, begin + static_cast<std::ptrdiff_t>(k)};
  }
  std::vector<float> row_weights(std::size_t row, std::size_t k) const {
    const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(row * k);
    return {begin, begin + static_cast<std::ptrdiff_t>(k)};
  }
};

inline Routed route_all(const TopKConfig& config, const std::vector<float>& logits,
                        const RouteOptions& options = {}) {
  const std::int64_t num_tokens = static_cast<std::int64_t>(logits.size()) / config.num_experts;
  Routed r;
  r.ids.resize(static_cast<std::size_t>(num_tokens * config.top_k));
  r.weights.resize(r.ids.size());
  if (!r.ids.empty()) {
    std::memset(r.ids.data(), 0x7F, r.ids.size() * sizeof(std::int32_t));
    std::memset(r.weights.data(), 0x7F, r.weights.size() * sizeof(float));
  }
  TopKOutput out{r.ids, r.weights, 0};
  route(config, {logits.data(), DType::kF32, Shape{num_tokens, config.num_experts}}, out, options);
  r.num_dead_rows = out.num_dead_rows;
  return r;
}

}  // namespace fusedmoe::test
