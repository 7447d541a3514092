// Waiting without a lock: spin a little, then give the core away.
#pragma once

#include <atomic>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fusedmoe {

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// One wait loop's patience: pause for a while, then yield on every turn, so that more threads than
/// cores still make progress.
class SpinWait {
 public:
  void pause() noexcept {
    if (++turns_ < kTurnsBeforeYield) {
      cpu_relax();
    } else {
      std::this_thread::yield();
    }
  }

 private:
  static constexpr int kTurnsBeforeYield = 2000;  // about 50 us of pauses
  int turns_ = 0;
};

/// A barrier for the threads of one Executor::run. Reusable; no allocation, no lock.
class SpinBarrier {
 public:
  explicit SpinBarrier(int num_threads) noexcept : num_threads_(num_threads) {}

  void wait() noexcept {
    const int phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    for (SpinWait spin; phase_.load(std::memory_order_acquire) == phase;) spin.pause();
  }

 private:
  const int num_threads_;
  std::atomic<int> arrived_{0};
  std::atomic<int> phase_{0};
};

}  // namespace fusedmoe
