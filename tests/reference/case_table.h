// One table of small layers: every kernel is run against the oracle on each of them.
#pragma once

#include <string>
#include <vector>

#include "fusedmoe/layer.h"
#include "reference/layer_data.h"

namespace fusedmoe::test {

struct LayerCase {
  std::string name;  ///< letters, digits and underscores
  FusedMoEConfig config;
  BatchOptions batch;
};

std::vector<LayerCase> layer_cases();

/// Kernels of the table that can serve `config` on this machine, best first.
std::vector<KernelChoice> usable_kernels(const FusedMoEConfig& config);

}  // namespace fusedmoe::test
