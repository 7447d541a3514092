// Runs the real program as a user would.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace fusedmoe::test {

struct CliResult {
  int exit_code = -1;  ///< -1: ended by a signal
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

struct CliLimits {
  long max_file_bytes = -1;  ///< RLIMIT_FSIZE: what a full disk looks like
  std::vector<std::pair<std::string, std::string>> environment;
};

/// Runs the program with `arguments` and waits for it.
CliResult run_cli(const std::vector<std::string>& arguments, const CliLimits& limits = {});

/// Runs any program of PATH in the same way.
CliResult run_process(const std::string& program, const std::vector<std::string>& arguments,
                      const CliLimits& limits = {});

}  // namespace fusedmoe::test
