// The completion script offers what --help lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "cli_process.h"

namespace fusedmoe::test {
namespace {

using ::testing::IsSupersetOf;

// The words that bash would offer for the last of `words`.
std::set<std::string> completions(const std::vector<std::string>& words) {
  std::string script = "source " FUSEDMOE_CLI_COMPLETION "; COMP_WORDS=(" FUSEDMOE_CLI_PROGRAM;
  for (const std::string& word : words) script += " '" + word + "'";
  script += "); COMP_CWORD=" + std::to_string(words.size());
  script += "; _fusedmoe; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const CliResult result = run_process("bash", {"--norc", "-c", script});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  std::istringstream lines(result.out);
  std::set<std::string> offered;
  for (std::string line; std::getline(lines, line);) offered.insert(line);
  return offered;
}

// Every "--option" that stands at the start of a line of the help.
std::set<std::string> documented_options(const std::string& command) {
  const std::string help = run_cli({command, "--help"}).out;
  const std::regex option("(?:^|\n)  (?:-h,)?(--[a-z-]+)");
  std::set<std::string> options;
  for (std::sregex_iterator it(help.begin(), help.end(), option), end; it != end; ++it) {
    options.insert((*it)[1]);
  }
  return options;
}

TEST(Completion, OffersCommands) {
  EXPECT_THAT(completions({""}), IsSupersetOf({"inspect", "verify", "run", "bench", "kernels"}));
  EXPECT_EQ(completions({"ver"}), std::set<std::string>{"verify"});
}

TEST(Completion, OffersEveryOptionOfACommand) {
  for (const char* command : {"inspect", "verify", "run", "bench", "kernels"}) {
    const std::set<std::string> documented = documented_options(command);
    EXPECT_THAT(documented, IsSupersetOf({"--help", "--json"})) << command;
    EXPECT_EQ(completions({command, "--"}), documented) << command;
  }
}

TEST(Completion, OffersValues) {
  EXPECT_EQ(completions({"run", "dir", "--dtype", ""}),
            (std::set<std::string>{"f32", "bf16", "f16"}));
  EXPECT_THAT(completions({"bench", "--shape", ""}), IsSupersetOf({"mixtral_8x7b", "all"}));
}

}  // namespace
}  // namespace fusedmoe::test
