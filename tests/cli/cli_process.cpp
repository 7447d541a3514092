#include "cli_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace fusedmoe::test {
namespace {

// In the child: never returns.
[[noreturn]] void become(const std::string& program, const std::vector<std::string>& arguments,
                         const CliLimits& limits, int out, int err) {
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  for (const auto& [name, value] : limits.environment) setenv(name.c_str(), value.c_str(), 1);
  if (limits.max_file_bytes >= 0) {
    const rlimit limit{static_cast<rlim_t>(limits.max_file_bytes),
                       static_cast<rlim_t>(limits.max_file_bytes)};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(program.c_str(), argv.data());
  _exit(127);
}

// Reads both pipes to their ends, whichever has something first.
void drain(int out, int err, CliResult& result) {
  std::array<pollfd, 2> pipes{{{out, POLLIN, 0}, {err, POLLIN, 0}}};
  std::array<std::string*, 2> texts{&result.out, &result.err};
  std::array<char, 65536> buffer{};
  int open_pipes = 2;
  while (open_pipes > 0 && poll(pipes.data(), pipes.size(), -1) > 0) {
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (pipes[i].revents == 0) continue;
      const ssize_t count = read(pipes[i].fd, buffer.data(), buffer.size());
      if (count > 0) {
        texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
      } else {
        pipes[i].fd = -1;
        --open_pipes;
      }
    }
  }
}

}  // namespace

CliResult run_process(const std::string& program, const std::vector<std::string>& arguments,
                      const CliLimits& limits) {
  CliResult result;
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (pipe(out.data()) != 0 || pipe(err.data()) != 0) {
    ADD_FAILURE() << "no pipe";
    return result;
  }
  const pid_t child = fork();
  if (child == 0) become(program, arguments, limits, out[1], err[1]);
  close(out[1]);
  close(err[1]);
  drain(out[0], err[0], result);
  close(out[0]);
  close(err[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

CliResult run_cli(const std::vector<std::string>& arguments, const CliLimits& limits) {
  return run_process(FUSEDMOE_CLI_PROGRAM, arguments, limits);
}

}  // namespace fusedmoe::test
