#include "machine_limits.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
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
// One unit takes about a millisecond; a run has enough of them for clocks to settle.
constexpr std::int64_t kFmaIterations = 2'000'000;
constexpr std::size_t kFmaUnitsPerThread = 50;
// How far ahead of the sum lines are asked for: a core draws its share of the bandwidth only so.
constexpr std::size_t kPrefetchAhead = 4096;

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
    for (std::size_t line = 0; line < sizeof words; line += 64) {
      __builtin_prefetch(data + offset + kPrefetchAhead + line);
    }
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
  parallel_units(executor, num_bytes_ / kHugePage, [this](std::size_t page) {
    keep(sum_words(data_ + page * kHugePage, kHugePage));
  });
}

MachineLimits measure_limits(const StreamBuffer& buffer, Executor& executor) {
  const TimeSpread read = measure(
      kReadRuns, [] {}, [&] { buffer.read(executor); });
  const std::size_t num_units =
      kFmaUnitsPerThread * static_cast<std::size_t>(executor.num_threads());
  std::vector<double> flops(num_units);
  const TimeSpread fma = measure(
      kFmaRuns, [] {},
      [&] {
        parallel_units(executor, num_units, [&](std::size_t unit) {
          float sink = 0.0F;
          flops[unit] = spin_fma(kFmaIterations, &sink);
          keep(static_cast<std::uint64_t>(sink));
        });
      });
  const double total_flops = std::accumulate(flops.begin(), flops.end(), 0.0);
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
