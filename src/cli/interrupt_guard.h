// Lets a write finish before Ctrl-C takes effect.
#pragma once

#include <csignal>

namespace fusedmoe::cli {

/// While one lives, SIGINT, SIGTERM and SIGHUP are remembered; the destructor restores the former
/// reaction and raises the remembered one. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

 private:
  struct sigaction former_[3];
};

}  // namespace fusedmoe::cli
