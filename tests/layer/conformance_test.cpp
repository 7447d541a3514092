// Every kernel that can serve a case of the table, against both oracles; and kernels of one
// arithmetic against each other, bit by bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "reference/case_table.h"
#include "reference/naive_moe.h"
#include "reference/planned_layer.h"
#include "reference/tolerance.h"

namespace fusedmoe::test {
namespace {

class Conformance : public testing::TestWithParam<LayerCase> {};

std::vector<double> expected(const FusedMoEConfig& config, const naive::Layer& layer,
                             const naive::Batch& batch, naive::Oracle oracle) {
  return config.no_combine ? naive::slots(layer, batch, oracle)
                           : naive::forward(layer, batch, oracle);
}

TEST_P(Conformance, AllKernels) {
  const LayerCase& layer_case = GetParam();
  const FusedMoEConfig& config = layer_case.config;
  const LayerData data = random_layer(config, 1);
  const BatchData batch = random_batch(config, layer_case.batch, 2);
  const naive::Layer layer = to_naive(data);
  const naive::Batch plain = to_naive(batch);
  const std::vector<double> exact = expected(config, layer, plain, naive::Oracle::kExact);
  const std::vector<double> rounded = expected(config, layer, plain, naive::Oracle::kRounded);
  const std::int64_t longest = std::max(config.hidden_size, config.intermediate_size);

  std::map<std::string, std::vector<std::byte>> bits_of_arithmetic;
  for (const KernelChoice& kernel : usable_kernels(config)) {
    SCOPED_TRACE(kernel.name);
    PlannedLayer planned(data, batch.num_tokens, kernel.name);
    const std::vector<std::byte> bytes = planned.run(batch);
    const std::vector<double> result = to_doubles(bytes, config.hidden_dtype);
    EXPECT_LE(tolerance::norm_error(result, exact),
              tolerance::against_exact(config.hidden_dtype, longest));
    EXPECT_LE(tolerance::norm_error(result, rounded),
              tolerance::against_rounded(config.hidden_dtype, longest));
    const auto [first, is_first] = bits_of_arithmetic.try_emplace(kernel.arithmetic, bytes);
    EXPECT_TRUE(is_first || first->second == bytes)
        << "bits differ from the first kernel of " << kernel.arithmetic;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Conformance, testing::ValuesIn(layer_cases()),
                         [](const auto& one) { return one.param.name; });

TEST(KernelTable, HasTheReferenceLastAndServesEveryDtype) {
  for (const LayerCase& layer_case : layer_cases()) {
    const std::vector<KernelChoice> kernels = usable_kernels(layer_case.config);
    ASSERT_FALSE(kernels.empty());
    EXPECT_EQ(kernels.back().name, "reference") << layer_case.name;
    const auto is_cpu_f32 = [](const KernelChoice& k) { return k.arithmetic == "cpu_f32"; };
    EXPECT_GE(std::count_if(kernels.begin(), kernels.end(), is_cpu_f32), 1) << layer_case.name;
  }
}

}  // namespace
}  // namespace fusedmoe::test
