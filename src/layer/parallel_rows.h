// Runs a function on contiguous shares of a range, one share a thread; allocates nothing.
#pragma once

#include <cstdint>

#include "fusedmoe/executor.h"

namespace fusedmoe {

/// Calls body(first, last) on every thread of `executor` with its share of [0, count).
template <class Body>
void parallel_rows(Executor& executor, std::int64_t count, const Body& body) {
  struct Context {
    const Body* body;
    std::int64_t count;
    int num_threads;
  } context{&body, count, executor.num_threads()};
  executor.run(
      [](void* raw, int thread) {
        const auto& c = *static_cast<const Context*>(raw);
        const std::int64_t first = c.count * thread / c.num_threads;
        const std::int64_t last = c.count * (thread + 1) / c.num_threads;
        if (first < last) (*c.body)(first, last);
      },
      &context);
}

}  // namespace fusedmoe
