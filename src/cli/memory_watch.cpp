#include "memory_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace fusedmoe::cli {
namespace {

// Short against the time to read one large expert (256 MiB at 10 GB/s takes 27 ms).
constexpr auto kSamplePeriod = std::chrono::milliseconds(2);

// Linux: pages as "size resident shared ..."; shared pages are those of files.
std::int64_t anonymous_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  std::int64_t shared = 0;
  if (!(file >> size >> resident >> shared)) return 0;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

}  // namespace

MemoryWatch::MemoryWatch()
    : start_(anonymous_bytes()),
      peak_(start_),
      sampler_([this](const std::stop_token& stopped) { sample_until(stopped); }) {}

MemoryWatch::~MemoryWatch() { stop(); }

void MemoryWatch::stop() {
  if (!sampler_.joinable()) return;
  sampler_.request_stop();
  sampler_.join();
  final_ = anonymous_bytes();
  peak_ = std::max(peak_, final_);
}

void MemoryWatch::sample_until(const std::stop_token& stopped) {
  while (!stopped.stop_requested()) {
    peak_ = std::max(peak_, anonymous_bytes());
    std::this_thread::sleep_for(kSamplePeriod);
  }
}

}  // namespace fusedmoe::cli
