// Counts every allocation of the process, of any thread, between two calls.
#pragma once

#include <cstdint>

namespace fusedmoe::test {

/// Allocations since the program began; linking this in makes malloc and its relatives count.
std::int64_t num_allocations() noexcept;

}  // namespace fusedmoe::test
