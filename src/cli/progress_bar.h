// A progress bar on stderr, for loads that somebody has to wait for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace fusedmoe::cli {

/// Draws nothing unless stderr is a terminal and more than a second has passed since construction.
/// The line is wiped on destruction.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Safe to call from several threads.
  void update(std::uint64_t done, std::uint64_t total);
  /// `update` as a LoadOptions::progress; must not outlive this object.
  std::function<void(std::uint64_t, std::uint64_t)> callback();

 private:
  std::string label_;
  bool is_terminal_;
  std::chrono::steady_clock::time_point next_draw_;
  std::mutex mutex_;
  bool drawn_ = false;
};

}  // namespace fusedmoe::cli
