#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli_process.h"
#include "scratch_folder.h"

namespace fusedmoe::test {
namespace {

using ::testing::HasSubstr;

class InspectGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(InspectGolden, DescribesEveryRecordedLayer) {
  const CliResult result = run_cli({"inspect", golden_folder(GetParam()).string(), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = result.json();
  const Checkpoint golden = Checkpoint::open(golden_folder(GetParam()) / "golden.safetensors");
  for (const auto& layer : report["layers"]) {
    const std::string name = "layers." + std::to_string(layer["layer"].get<int>()) + ".";
    const TensorInfo* input = golden.find(name + "input");
    if (input == nullptr) continue;
    EXPECT_EQ(layer["hidden_size"], input->shape[1]);
    EXPECT_EQ(layer["top_k"], golden.find(name + "topk_ids")->shape[1]);
    EXPECT_EQ(layer["num_experts"].get<std::int64_t>() +
                  layer["num_identity_experts"].get<std::int64_t>(),
              golden.find(name + "router_logits")->shape[1]);
    EXPECT_GT(layer["bytes"].get<std::int64_t>(), 0);
  }
  EXPECT_FALSE(report["layers"].empty());
}

INSTANTIATE_TEST_SUITE_P(All, InspectGolden, ::testing::ValuesIn(golden_families()),
                         [](const auto& family) { return family.param; });

TEST(Inspect, TextNamesModelAndShapes) {
  const CliResult result = run_cli({"inspect", golden_folder("trained_qwen3_moe").string()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("qwen3_moe"));
  EXPECT_THAT(result.out, HasSubstr("0-3"));  // equal layers share a line
  EXPECT_THAT(result.out, HasSubstr("top 4 of 32"));
}

// The ranks' experts and widths tile the layer.
TEST(Inspect, RanksOfAGridHoldEverythingOnce) {
  const nlohmann::json report =
      run_cli({"inspect", golden_folder("qwen3_moe").string(), "--tp", "2", "--ep", "3", "--json"})
          .json();
  ASSERT_EQ(report["ranks"].size(), 6U);
  std::int64_t experts_times_width = 0;
  std::int64_t bytes = 0;
  for (const auto& rank : report["ranks"]) {
    experts_times_width += rank["num_local_experts"].get<std::int64_t>() *
                           rank["intermediate_size"].get<std::int64_t>();
    bytes += rank["expert_bytes"].get<std::int64_t>();
  }
  EXPECT_EQ(experts_times_width, 16 * 32);
  EXPECT_EQ(bytes, 2 * 16 * 3 * 64 * 32 * 2);  // layers, experts, matrices, H, I, bf16
}

TEST(Inspect, ListsFamiliesInThreeForms) {
  const nlohmann::json families = run_cli({"inspect", "--families", "--json"}).json()["families"];
  EXPECT_GE(families.size(), 20U);
  const CliResult markdown = run_cli({"inspect", "--families", "--markdown"});
  EXPECT_THAT(markdown.out, HasSubstr("| family | model types |"));
  const CliResult text = run_cli({"inspect", "--families"});
  for (const auto& row : families) {
    EXPECT_THAT(markdown.out, HasSubstr("| " + row["family"].get<std::string>() + " |"));
    EXPECT_THAT(text.out, HasSubstr(row["family"].get<std::string>()));
  }
}

}  // namespace
}  // namespace fusedmoe::test
