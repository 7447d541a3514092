// fp32 multiply-add peak where every processor of the architecture has vector FMA (aarch64).
#include <cmath>

#include "machine_limits.h"

namespace fusedmoe::cli {

double spin_fma(std::int64_t iterations, float* sink) {
  constexpr int kSums = 16;  // latency 4 x 4 units
  constexpr int kLanes = 4;
  constexpr float kFactor = 0.999F;  // the sums stay ordinary numbers for ever
  constexpr float kAddend = 0.001F;
  float sums[kSums][kLanes] = {};
  for (std::int64_t i = 0; i < iterations; i += kSums) {
    for (auto& sum : sums) {
      for (float& lane : sum) lane = std::fma(lane, kFactor, kAddend);
    }
  }
  float total = 0.0F;
  for (const auto& sum : sums) total += sum[0] + sum[1] + sum[2] + sum[3];
  *sink = total;
  return static_cast<double>((iterations + kSums - 1) / kSums * kSums) * kLanes * 2;
}

}  // namespace fusedmoe::cli
