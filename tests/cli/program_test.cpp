// The program around the commands: help, version, usage errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli_process.h"

namespace fusedmoe::test {
namespace {

using ::testing::HasSubstr;

TEST(Program, PrintsItsVersion) {
  const CliResult result = run_cli({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, std::string("fusedmoe ") + FUSEDMOE_CLI_VERSION + "\n");
  EXPECT_EQ(result.err, "");
}

TEST(Program, HelpNamesCommandsAndExitCodes) {
  const CliResult result = run_cli({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* word : {"inspect", "verify", "run", "bench", "kernels", "Exit codes", "70"}) {
    EXPECT_THAT(result.out, HasSubstr(word));
  }
}

TEST(Program, EveryCommandHasHelpWithExamplesAndJson) {
  for (const char* command : {"inspect", "verify", "run", "bench", "kernels"}) {
    const CliResult result = run_cli({command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Examples:\n  fusedmoe ")) << command;
    EXPECT_THAT(result.out, HasSubstr("--json")) << command;
  }
}

struct UsageCase {
  std::vector<std::string> arguments;
  std::string in_message;
};

class Usage : public ::testing::TestWithParam<UsageCase> {};

TEST_P(Usage, IsRefusedWithOneMessage) {
  const CliResult result = run_cli(GetParam().arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, ::testing::StartsWith("fusedmoe: error: [cli] "));
  EXPECT_THAT(result.err, HasSubstr(GetParam().in_message));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Usage,
    ::testing::Values(
        UsageCase{{}, "subcommand is required"},
        UsageCase{{"explain"},
                  "expected one of inspect, verify, run, bench, kernels, got 'explain'"},
        UsageCase{{"inspect"}, "expected a checkpoint folder or --families"},
        UsageCase{{"inspect", "x", "--nope"}, "--nope"}, UsageCase{{"verify"}, "dir is required"},
        UsageCase{{"verify", "x", "--tp", "0"}, "--tp"},
        UsageCase{{"run", "x", "--input", "a", "--output", "b"}, "--layer is required"},
        UsageCase{{"run", "x", "--layer", "0", "--input", "a", "--output", "b", "--dtype", "f8"},
                  "--dtype"},
        UsageCase{{"bench", "--tokens", "0"}, "--tokens"},
        UsageCase{{"bench", "--shape", "nope"}, "qwen3_30b_a3b"},
        UsageCase{{"kernels", "--activation", "nope"}, "swigluoai"},
        UsageCase{{"kernels", "--hidden-size", "-1"}, "--hidden-size"}));

TEST(Program, JsonErrorsGoToStdoutAsWell) {
  const CliResult result = run_cli({"verify", "--json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.json()["error"]["code"], "invalid_argument");
  EXPECT_THAT(result.err, HasSubstr(result.json()["error"]["message"].get<std::string>()));
}

}  // namespace
}  // namespace fusedmoe::test
