// Measures the routed experts of one layer at several batch sizes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fusedmoe/layer.h"
#include "machine_limits.h"
#include "random_layer.h"
#include "timing.h"

namespace fusedmoe::cli {

struct BenchSettings {
  std::vector<std::int64_t> tokens;
  RoutingPattern routing = RoutingPattern::kUniform;
  int repeats = 5;
  bool is_cold = true;  ///< caches are emptied before each repetition
};

struct BenchRow {
  std::int64_t num_tokens = 0;
  TimeSpread time;
  Work work;
  Figures figures;
};

struct BenchResult {
  std::string name;
  FusedMoEConfig config;
  std::string kernel;
  std::string arithmetic;
  std::vector<BenchRow> rows;
};

/// What measuring needs from the machine.
struct BenchMachine {
  Executor& executor;
  const StreamBuffer& buffer;
  MachineLimits limits;
};

/// @param layer planned for the largest number of tokens, and loaded.
BenchResult bench_layer(const std::string& name, const FusedMoE& layer,
                        const BenchSettings& settings, const BenchMachine& machine);

std::string bench_text(const BenchResult& result);
nlohmann::ordered_json bench_json(const BenchResult& result);

}  // namespace fusedmoe::cli
