// Measures how much memory a piece of work takes at its worst moment.
#pragma once

#include <cstdint>
#include <stop_token>
#include <thread>

namespace fusedmoe::cli {

/// Samples the anonymous memory of the process (what it must own; pages of mapped files, which the
/// system can drop at any time, are not counted) from construction to `stop`.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  void stop();
  /// Largest growth over the start, in bytes; after `stop`.
  std::int64_t peak_growth_bytes() const noexcept { return peak_ - start_; }
  /// Growth that remained at `stop`, in bytes.
  std::int64_t final_growth_bytes() const noexcept { return final_ - start_; }

 private:
  void sample_until(const std::stop_token& stopped);

  std::int64_t start_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t final_ = 0;
  std::jthread sampler_;
};

}  // namespace fusedmoe::cli
