// What the machine can do at best, measured: the floor that times are compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fusedmoe/executor.h"
#include "layer_facts.h"

namespace fusedmoe::cli {

/// Memory larger than every cache, to measure reading and to empty the caches.
class StreamBuffer {
 public:
  /// At least twice the last-level cache and 256 MiB. @throws Error(kOutOfMemory).
  explicit StreamBuffer(Executor& executor);
  ~StreamBuffer();
  StreamBuffer(const StreamBuffer&) = delete;
  StreamBuffer& operator=(const StreamBuffer&) = delete;

  std::size_t num_bytes() const noexcept { return num_bytes_; }
  /// Reads every byte once, on all threads of the executor.
  void read(Executor& executor) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t num_bytes_ = 0;
};

struct MachineLimits {
  double read_bytes_per_second = 0.0;
  double fma_flops_per_second = 0.0;  ///< fp32, widest vectors, a multiply-add is two
};

/// The best of several short runs on the executor's threads (burst, not held for minutes); takes
/// about half a second.
MachineLimits measure_limits(const StreamBuffer& buffer, Executor& executor);
/// "read 31.2 GB/s, fp32 multiply-add 345 GFLOP/s, 2 threads".
std::string limits_words(const MachineLimits& limits, int num_threads);

/// A measured time against the floor.
struct Figures {
  double bytes_per_second = 0.0;
  double flops_per_second = 0.0;
  double percent_of_memory_floor = 0.0;
  double percent_of_floor = 0.0;  ///< the floor is the larger of the memory and arithmetic floors
  const char* bound = "memory";   ///< or "arithmetic": which of the two is the larger
};
Figures figures(const Work& work, double seconds, const MachineLimits& limits);

/// Runs `iterations` rounds of independent fp32 multiply-adds in the widest vectors that this
/// processor has; returns the number of floating-point operations done. `sink` keeps the result.
double spin_fma(std::int64_t iterations, float* sink);

}  // namespace fusedmoe::cli
