// That bench runs and reports; never how fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli_process.h"
#include "scratch_folder.h"

namespace fusedmoe::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> small_bench(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "bench", "--checkpoint", golden_folder("qwen3_moe").string(), "--tokens", "1,5", "--repeats",
      "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Bench, ReportsEveryBatchSizeAsJson) {
  const CliResult result = run_cli(small_bench({"--json", "--routing", "zipf"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = result.json();
  EXPECT_GT(report["read_gb_per_second"].get<double>(), 0.0);
  EXPECT_GT(report["fma_gflop_per_second"].get<double>(), 0.0);
  const auto& rows = report["results"][0]["rows"];
  ASSERT_EQ(rows.size(), 2U);
  // One token of 8 experts, three matrices of 64 x 32 in bf16.
  EXPECT_EQ(rows[0]["weight_bytes"].get<double>(), 8 * 3 * 64 * 32 * 2);
  EXPECT_EQ(rows[1]["flops"].get<double>(), 5.0 * 8 * 3 * 64 * 32 * 2);
  for (const auto& row : rows) {
    EXPECT_LE(row["min_ms"].get<double>(), row["median_ms"].get<double>());
    EXPECT_LE(row["median_ms"].get<double>(), row["max_ms"].get<double>());
  }
}

TEST(Bench, WritesJsonToAFileBesideTheTable) {
  const ScratchFolder folder;
  const CliResult result = run_cli(small_bench({"--warm", "--json", folder.file("b.json")}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("% of floor"));
  const nlohmann::json report = nlohmann::json::parse(std::ifstream(folder.file("b.json")));
  EXPECT_EQ(report["caches"], "warm");
}

TEST(Bench, AWrongLayerIsNotFound) {
  const CliResult result = run_cli(small_bench({"--layer", "9"}));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("(0, 1)"));
}

}  // namespace
}  // namespace fusedmoe::test
