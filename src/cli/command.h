// What a command of the program is: a row of a table.
#pragma once

#include <functional>
#include <span>

namespace CLI {
class App;
}

namespace fusedmoe::cli {

/// Runs a command whose options have been parsed; returns the exit code. Throws Error.
using Action = std::function<int()>;

struct CommandRow {
  const char* name;
  const char* summary;
  const char* examples;  ///< shown below the options by `--help`
  /// Adds the command's options and returns what runs it; the action owns the parsed values.
  Action (*declare)(CLI::App& app);
};

/// All commands, in the order of `fusedmoe --help`.
std::span<const CommandRow> commands() noexcept;

Action declare_inspect(CLI::App& app);
Action declare_verify(CLI::App& app);
Action declare_run(CLI::App& app);
Action declare_bench(CLI::App& app);
Action declare_kernels(CLI::App& app);

}  // namespace fusedmoe::cli
