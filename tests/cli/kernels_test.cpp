#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli_process.h"

namespace fusedmoe::test {
namespace {

using ::testing::HasSubstr;

int num_chosen(const nlohmann::json& table) {
  int count = 0;
  for (const auto& row : table["kernels"]) count += row["chosen"].get<bool>() ? 1 : 0;
  return count;
}

TEST(Kernels, OneIsChosenAndEveryOtherRowSaysWhyOrThatItCan) {
  const nlohmann::json table = run_cli({"kernels", "--json"}).json();
  EXPECT_EQ(num_chosen(table), 1);
  EXPECT_FALSE(table["cpu"].get<std::string>().empty());
  for (const auto& row : table["kernels"]) {
    if (row["chosen"].get<bool>()) {
      EXPECT_EQ(row["reason"], "");
    }
    EXPECT_FALSE(row["arithmetic"].get<std::string>().empty());
  }
}

TEST(Kernels, TextShowsTheTable) {
  const CliResult result = run_cli({"kernels", "--shape", "gpt_oss_20b"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("H 2880 I 2880 E 32 k 4"));
  EXPECT_THAT(result.out, HasSubstr("chosen"));
  EXPECT_THAT(result.out, HasSubstr("reference"));
}

TEST(Kernels, AKernelCanBeForced) {
  const nlohmann::json table = run_cli({"kernels", "--kernel", "reference", "--json"}).json();
  for (const auto& row : table["kernels"]) {
    EXPECT_EQ(row["chosen"].get<bool>(), row["name"] == "reference");
  }
}

TEST(Kernels, AnUnknownKernelIsUnsupported) {
  const CliResult result = run_cli({"kernels", "--kernel", "nope", "--json"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.json()["error"]["code"], "unsupported");
  EXPECT_THAT(result.err, HasSubstr("reference"));
}

}  // namespace
}  // namespace fusedmoe::test
