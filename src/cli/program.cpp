#include "program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "command.h"
#include "exit_codes.h"
#include "fusedmoe/error.h"
#include "terminal.h"

namespace fusedmoe::cli {
namespace {

// Asked before parsing, because a parse error must be reported in the right form too.
bool asks_for_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json" || word.starts_with("--json=")) return true;
  }
  return false;
}

int report(ErrorCode code, std::string_view message, bool json) {
  fmt::print(stderr, "fusedmoe: error: {}\n", message);
  if (json) {
    const nlohmann::ordered_json error = {{"code", error_code_name(code)}, {"message", message}};
    // stdout itself may be what failed; the message is on stderr already.
    const std::string text = json_text({{"error", error}});
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  return exit_code_for(code);
}

int run_action(const Action& action, bool json) {
  try {
    return action();
  } catch (const Error& error) {
    return report(error.code(), error.what(), json);
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::kOutOfMemory,
                  "[cli] memory: an allocation failed, use a machine with more memory or a smaller "
                  "problem",
                  json);
  } catch (const std::exception& error) {
    return report(ErrorCode::kInternal,
                  fmt::format("[cli] unexpected failure: {}, please report it", error.what()),
                  json);
  }
}

std::string command_names() {
  std::string names;
  for (const CommandRow& row : commands())
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

// The parser's own words, except where it does not see what is wrong: a command that does not
// exist.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error,
                          std::string_view first_word) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty() && !first_word.empty() && !first_word.starts_with('-')) {
    return fmt::format("[cli] command: expected one of {}, got '{}', see 'fusedmoe --help'",
                       command_names(), first_word);
  }
  const std::string command = chosen.empty() ? "fusedmoe" : "fusedmoe " + chosen[0]->get_name();
  return fmt::format("[cli] {}: {}, see '{} --help'", command, error.what(), command);
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  CLI::App app{"Runs the mixture-of-experts layers of Hugging Face checkpoints.", "fusedmoe"};
  app.set_version_flag("--version", std::string("fusedmoe ") + FUSEDMOE_VERSION,
                       "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.get_formatter()->column_width(34);
  app.require_subcommand(1);
  app.footer("'fusedmoe COMMAND --help' shows a command's options and examples.\n\n" +
             exit_codes_help());
  Action action;
  for (const CommandRow& row : commands()) {
    CLI::App* command = app.add_subcommand(row.name, row.summary);
    command->footer(row.examples);
    command->callback([&action, run = row.declare(*command)] { action = run; });
  }
  const bool json = asks_for_json(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version come as "errors" with exit code 0.
    if (error.get_exit_code() == 0) return app.exit(error);
    return report(ErrorCode::kInvalidArgument, usage_message(app, error, argc > 1 ? argv[1] : ""),
                  json);
  }
  return run_action(action, json);
}

}  // namespace fusedmoe::cli
