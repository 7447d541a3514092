// Every table of row operations gives the bits of the plain one.
#include "layer/routing/score_ops.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <vector>

#include "arch/cpu_features.h"

namespace fusedmoe::routing {
namespace {

constexpr std::int64_t kExperts = 77;

std::vector<float> logits(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 6.0F);
  std::vector<float> x(static_cast<std::size_t>(padded_size(kExperts)),
                       -std::numeric_limits<float>::infinity());
  for (std::size_t e = 0; e < kExperts; ++e) x[e] = normal(random);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  x[4] = -std::numeric_limits<float>::infinity();
  x[5] = -0.0F;
  if (seed % 2 == 1) x[70] = std::numeric_limits<float>::infinity();
  return x;
}

// What every operation makes of one row, one after the other.
std::vector<float> results(const ScoreOps& ops, unsigned seed) {
  const std::int64_t n = padded_size(kExperts);
  std::vector<float> x = logits(seed);
  std::vector<float> all;
  std::vector<float> out(x.size());
  const auto keep = [&](const std::vector<float>& v) { all.insert(all.end(), v.begin(), v.end()); };
  ops.clean(x.data(), n);
  keep(x);
  const float max = ops.row_max(x.data(), n);
  const float sum = ops.softmax_terms(x.data(), max, out.data(), n);
  all.insert(all.end(), {max, sum});
  keep(out);
  ops.divide(out.data(), sum, n);
  keep(out);
  const std::vector<float> bias(kExperts, 0.3F);
  ops.biased_keys(x.data(), out.data(), bias.data(), out.data(), kExperts, n);
  keep(out);
  ops.sigmoid(x.data(), out.data(), n);
  keep(out);
  ops.sqrt_softplus(x.data(), out.data(), n);
  keep(out);
  ops.soft_cap(x.data(), 5.0F, n);
  keep(x);
  return all;
}

TEST(ScoreOps, TablesAgreeBitForBit) {
  struct Table {
    Isa isa;
    const ScoreOps* ops;
  };
  const Table tables[] = {{Isa::kAvx2, avx2_score_ops()},
                          {Isa::kAvx512, avx512_score_ops()},
                          {Isa::kNeon, neon_score_ops()}};
  int num_compared = 0;
  for (const Table& table : tables) {
    if (table.ops == nullptr || !missing_isa_reason(table.isa).empty()) continue;
    ++num_compared;
    for (unsigned seed = 0; seed < 50; ++seed) {
      const std::vector<float> expected = results(*scalar_score_ops(), seed);
      const std::vector<float> got = results(*table.ops, seed);
      ASSERT_EQ(expected.size(), got.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(expected[i]), std::bit_cast<std::uint32_t>(got[i]))
            << isa_name(table.isa) << " value " << i;
      }
    }
  }
  if (num_compared == 0) GTEST_SKIP() << "only the plain table runs here";
}

}  // namespace
}  // namespace fusedmoe::routing
