#include "terminal.h"

#include <fmt/format.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fusedmoe/error.h"

namespace fusedmoe::cli {

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return;
  const int reason = errno;
  throw Error(ErrorCode::kDevice,
              fmt::format("[cli] stdout: expected {} bytes to be written, got '{}', free space or "
                          "write elsewhere",
                          text.size(), std::strerror(reason)));
}

std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void print_json(const nlohmann::ordered_json& value) { print(json_text(value)); }

void print_warning(std::string_view text) { fmt::print(stderr, "fusedmoe: warning: {}\n", text); }

bool stdout_takes_utf8() {
  // nl_langinfo speaks of the locale in force, so the environment's must be in force first. Only
  // the character type is taken: numbers keep their C form.
  std::setlocale(LC_CTYPE, "");
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

int stdout_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace fusedmoe::cli
