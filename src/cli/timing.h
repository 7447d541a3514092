// Repeated wall-clock measurements.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace fusedmoe::cli {

struct TimeSpread {
  double median_seconds = 0.0;
  double min_seconds = 0.0;
  double max_seconds = 0.0;
};

/// Calls `prepare` (not timed) and `work` (timed), `repeats` >= 1 times.
template <class Prepare, class Work>
TimeSpread measure(int repeats, const Prepare& prepare, const Work& work) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    prepare();
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    seconds.push_back(elapsed.count());
  }
  std::sort(seconds.begin(), seconds.end());
  const std::size_t middle = seconds.size() / 2;
  const double median =
      seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  return {median, seconds.front(), seconds.back()};
}

}  // namespace fusedmoe::cli
