// Runs the body of a test with each kernel that can serve a layer on this machine.
#pragma once

#include <gtest/gtest.h>

#include "reference/case_table.h"
#include "reference/planned_layer.h"

namespace fusedmoe::test {

template <class Body>
void every_kernel(const LayerData& data, std::int64_t max_num_tokens, const Body& body) {
  for (const KernelChoice& kernel : usable_kernels(data.config)) {
    SCOPED_TRACE(kernel.name);
    PlannedLayer planned(data, max_num_tokens, kernel.name);
    body(planned);
  }
}

}  // namespace fusedmoe::test
