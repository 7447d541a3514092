#include "machine_limits.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "fusedmoe/error.h"
#include "parallel_for.h"
#include "timing.h"

namespace fusedmoe::cli {
namespace {

constexpr std::size_t kMinBufferBytes = std::size_t{256} << 20;
// A page of this size keeps address translation out of the measurement.
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr int kReadRuns = 7;
constexpr int kFmaRuns = 7;
// 8 sums x 16 lanes x 2 operations at ~170 GFLOP/s a core: about 15 ms a run.
constexpr std::int64_t kFmaIterations = 10'000'000;

std::size_t buffer_bytes() {
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::size_t wanted =
      std::max(kMinBufferBytes, 2 * static_cast<std::size_t>(std::max(cache, 0L)));
  return (wanted + kHugePage - 1) / kHugePage * kHugePage;
}

std::uint64_t sum_words(const std::byte* data, std::size_t num_bytes) {
  constexpr std::size_t kLanes = 32;  // four independent cache lines
  std::uint64_t sums[kLanes] = {};
  std::uint64_t words[kLanes];
  for (std::size_t offset = 0; offset + sizeof words <= num_bytes; offset += sizeof words) {
    std::memcpy(words, data + offset, sizeof words);
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += words[lane];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t lane : sums) sum += lane;
  return sum;
}

// Something that the compiler must believe is read.
void keep(std::uint64_t value) {
  volatile std::uint64_t sink = value;
  static_cast<void>(sink);
}

}  // namespace

StreamBuffer::StreamBuffer(Executor& executor) : num_bytes_(buffer_bytes()) {
  void* memory =
      mmap(nullptr, num_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("[cli] measuring buffer: expected {} bytes, got '{}', free memory",
                            num_bytes_, std::strerror(errno)));
  }
  data_ = static_cast<std::byte*>(memory);
  madvise(data_, num_bytes_, MADV_HUGEPAGE);  // best effort
  parallel_ranges(executor, num_bytes_ / kHugePage, [this](std::size_t begin, std::size_t end) {
    std::memset(data_ + begin * kHugePage, 1, (end - begin) * kHugePage);
  });
}

StreamBuffer::~StreamBuffer() { munmap(data_, num_bytes_); }

void StreamBuffer::read(Executor& executor) const {
  parallel_ranges(executor, num_bytes_ / kHugePage, [this](std::size_t begin, std::size_t end) {
    keep(sum_words(data_ + begin * kHugePage, (end - begin) * kHugePage));
  });
}

MachineLimits measure_limits(const StreamBuffer& buffer, Executor& executor) {
  const TimeSpread read = measure(
      kReadRuns, [] {}, [&] { buffer.read(executor); });
  const auto num_threads = static_cast<std::size_t>(executor.num_threads());
  std::vector<double> flops(num_threads * 16);  // a cache line or more apart
  std::vector<float> sinks(num_threads * 32);
  const TimeSpread fma = measure(
      kFmaRuns, [] {},
      [&] {
        parallel_ranges(executor, num_threads, [&](std::size_t begin, std::size_t end) {
          for (std::size_t t = begin; t < end; ++t) {
            flops[t * 16] = spin_fma(kFmaIterations, &sinks[t * 32]);
          }
        });
      });
  double total_flops = 0.0;
  for (const double part : flops) total_flops += part;
  return {.read_bytes_per_second = static_cast<double>(buffer.num_bytes()) / read.min_seconds,
          .fma_flops_per_second = total_flops / fma.min_seconds};
}

std::string limits_words(const MachineLimits& limits, int num_threads) {
  return fmt::format("read {:.1f} GB/s, fp32 multiply-add {:.0f} GFLOP/s, {} threads",
                     limits.read_bytes_per_second / 1e9, limits.fma_flops_per_second / 1e9,
                     num_threads);
}

Figures figures(const Work& work, double seconds, const MachineLimits& limits) {
  const double memory_floor = work.weight_bytes / limits.read_bytes_per_second;
  const double arithmetic_floor = work.flops / limits.fma_flops_per_second;
  return {.bytes_per_second = work.weight_bytes / seconds,
          .flops_per_second = work.flops / seconds,
          .percent_of_memory_floor = 100.0 * memory_floor / seconds,
          .percent_of_floor = 100.0 * std::max(memory_floor, arithmetic_floor) / seconds,
          .bound = memory_floor >= arithmetic_floor ? "memory" : "arithmetic"};
}

}  // namespace fusedmoe::cli
