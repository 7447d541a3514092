// Splits a count over the threads of an executor.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>

#include "fusedmoe/executor.h"

namespace fusedmoe::cli {

/// Calls `body(begin, end)` once on each thread with its share of [0, count); empty shares are left
/// out. The first exception of any thread is thrown again here.
template <class Body>
void parallel_ranges(Executor& executor, std::size_t count, const Body& body) {
  struct Context {
    const Body& body;
    std::size_t count;
    std::size_t num_threads;
    std::mutex mutex;
    std::exception_ptr failure;
  } context{body, count, static_cast<std::size_t>(executor.num_threads()), {}, nullptr};
  executor.run(
      [](void* pointer, int thread_index) {
        auto& shared = *static_cast<Context*>(pointer);
        const auto index = static_cast<std::size_t>(thread_index);
        const std::size_t begin = index * shared.count / shared.num_threads;
        const std::size_t end = (index + 1) * shared.count / shared.num_threads;
        if (begin == end) return;
        try {
          shared.body(begin, end);
        } catch (...) {
          const std::lock_guard lock(shared.mutex);
          if (!shared.failure) shared.failure = std::current_exception();
        }
      },
      &context);
  if (context.failure) std::rethrow_exception(context.failure);
}

/// Calls `body(i)` for each i in [0, count), each thread taking the next one as it becomes free: a
/// core that others use as well does not hold the rest up. `body` must not throw.
template <class Body>
void parallel_units(Executor& executor, std::size_t count, const Body& body) {
  struct Context {
    const Body& body;
    std::size_t count;
    std::atomic<std::size_t> next;
  } context{body, count, 0};
  executor.run(
      [](void* pointer, int) {
        auto& shared = *static_cast<Context*>(pointer);
        for (std::size_t i = shared.next++; i < shared.count; i = shared.next++) shared.body(i);
      },
      &context);
}

}  // namespace fusedmoe::cli
