// The lane math against double precision, at the edges, and lane type against lane type.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "arch/cpu_features.h"
#include "arch/lane_results.inl"
#include "arch/simd/scalar.h"

namespace fusedmoe::test {
namespace {

using S = ScalarLanes;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double sigmoid_exact(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus_exact(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double gelu_tanh_exact(double x) {
  return x * sigmoid_exact(2.0 * std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x));
}
double gelu_exact(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

struct Sweep {
  const char* name;
  float (*ours)(float);
  double (*exact)(double);
  double first, last, step;
  double max_ulp;  // of the result; a unit is never smaller than the smallest subnormal
};

const Sweep kSweeps[] = {
    {"exp", exp_f32<S>, [](double x) { return std::exp(x); }, -104.0, 88.72, 1e-3, 1.0},
    {"sigmoid", sigmoid_f32<S>, sigmoid_exact, -88.5, 120.0, 1e-3, 2.5},
    {"silu", silu_f32<S>, [](double x) { return x * sigmoid_exact(x); }, -88.0, 120.0, 1e-3, 4.0},
    {"softplus", softplus_f32<S>, softplus_exact, -104.0, 120.0, 1e-3, 3.0},
    {"sqrt_softplus", sqrt_softplus_f32<S>, [](double x) { return std::sqrt(softplus_exact(x)); },
     -87.0, 120.0, 1e-3, 3.0},
    {"tanh", tanh_f32<S>, [](double x) { return std::tanh(x); }, -12.0, 12.0, 1e-4, 2.0},
    {"log1p", log1p_unit_f32<S>, [](double x) { return std::log1p(x); }, 0.0, 1.0, 1e-5, 3.0},
    {"log near 1", log_f32<S>, [](double x) { return std::log(x); }, 1e-3, 4.0, 1e-5, 3.0},
    {"log", log_f32<S>, [](double x) { return std::log(x); }, 4.0, 1e6, 7.3, 1.0},
    // The argument's own rounding grows with x^2 in the tails of the gelus.
    {"gelu_tanh", gelu_tanh_f32<S>, gelu_tanh_exact, -3.0, 50.0, 1e-3, 12.0},
    {"gelu_tanh tail", gelu_tanh_f32<S>, gelu_tanh_exact, -6.0, -3.0, 1e-3, 64.0},
    {"gelu_erf", gelu_erf_f32<S>, gelu_exact, -3.0, 50.0, 1e-3, 16.0},
    {"gelu_erf tail", gelu_erf_f32<S>, gelu_exact, -12.5, -3.0, 1e-3, 256.0},
};

TEST(LaneMath, StaysWithinItsErrorOnDenseSweeps) {
  for (const Sweep& sweep : kSweeps) {
    double worst = 0.0;
    float at = 0.0F;
    for (double d = sweep.first; d < sweep.last; d += sweep.step) {
      const auto x = static_cast<float>(d);
      const double exact = sweep.exact(x);
      const double unit =
          std::ldexp(1.0, std::max(exact == 0.0 ? -200 : std::ilogb(exact), -126) - 23);
      const double error = std::fabs(static_cast<double>(sweep.ours(x)) - exact) / unit;
      if (!(error <= worst)) {
        worst = error;
        at = x;
      }
    }
    EXPECT_LE(worst, sweep.max_ulp) << sweep.name << " at " << at;
  }
}

TEST(LaneMath, KeepsItsLimits) {
  EXPECT_EQ(exp_f32<S>(0.0F), 1.0F);
  EXPECT_EQ(exp_f32<S>(88.73F), kInf);
  EXPECT_EQ(exp_f32<S>(kInf), kInf);
  EXPECT_EQ(exp_f32<S>(-kInf), 0.0F);
  EXPECT_EQ(exp_f32<S>(-103.9F), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(sigmoid_f32<S>(kInf), 1.0F);
  EXPECT_EQ(sigmoid_f32<S>(-kInf), 0.0F);
  EXPECT_EQ(softplus_f32<S>(kInf), kInf);
  EXPECT_EQ(softplus_f32<S>(-kInf), 0.0F);
  EXPECT_EQ(tanh_f32<S>(kInf), 1.0F);
  EXPECT_EQ(tanh_f32<S>(-kInf), -1.0F);
  for (const auto f : {silu_f32<S>, gelu_tanh_f32<S>, gelu_erf_f32<S>}) {
    EXPECT_EQ(f(-kInf), 0.0F);
    EXPECT_TRUE(std::signbit(f(-kInf)));
    EXPECT_EQ(f(kInf), kInf);
  }
  EXPECT_TRUE(std::signbit(tanh_f32<S>(-0.0F)));
  for (const auto f : {exp_f32<S>, sigmoid_f32<S>, silu_f32<S>, gelu_tanh_f32<S>, gelu_erf_f32<S>,
                       softplus_f32<S>, sqrt_softplus_f32<S>, tanh_f32<S>, log1p_unit_f32<S>}) {
    EXPECT_TRUE(std::isnan(f(kNan)));
  }
}

std::vector<float> inputs() {
  std::vector<float> x;
  for (double d = -110.0; d < 110.0; d += 1e-2) x.push_back(static_cast<float>(d));
  for (const float v : {0.0F, -0.0F, kInf, -kInf, kNan, 1e-40F, -1e-40F, 3e38F, -3e38F}) {
    x.push_back(v);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  while (x.size() % kLaneUnit != 0) x.push_back(0.5F);
  return x;
}

using Results = std::array<std::vector<float>, kNumLaneFunctions>;
using Runner = void (*)(const float*, std::int64_t, float* const*);

Results run(Runner runner, const std::vector<float>& x) {
  Results results;
  std::array<float*, kNumLaneFunctions> out{};
  for (std::size_t f = 0; f < out.size(); ++f) {
    results[f].resize(x.size());
    out[f] = results[f].data();
  }
  runner(x.data(), static_cast<std::int64_t>(x.size()), out.data());
  return results;
}

void expect_same_bits_as_scalar(Runner runner) {
  const std::vector<float> x = inputs();
  const Results expected = run(lane_results<S>, x);
  const Results got = run(runner, x);
  for (std::size_t f = 0; f < expected.size(); ++f) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(expected[f][i]) && std::isnan(got[f][i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(expected[f][i]),
                std::bit_cast<std::uint32_t>(got[f][i]))
          << "function " << f << " of " << x[i];
    }
  }
}

#if defined(__x86_64__)
TEST(LaneMath, Avx2GivesTheBitsOfPlainCode) {
  const std::string reason = missing_isa_reason(Isa::kAvx2);
  if (!reason.empty()) GTEST_SKIP() << reason;
  expect_same_bits_as_scalar(lane_results_avx2);
}

TEST(LaneMath, Avx512GivesTheBitsOfPlainCode) {
  const std::string reason = missing_isa_reason(Isa::kAvx512);
  if (!reason.empty()) GTEST_SKIP() << reason;
  expect_same_bits_as_scalar(lane_results_avx512);
}
#endif

}  // namespace
}  // namespace fusedmoe::test
