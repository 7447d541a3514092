// Everything that is written to the terminal passes here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace fusedmoe::cli {

/// Writes to stdout. @throws Error(kDevice) when stdout refuses (full disk).
void print(std::string_view text);
/// Writes indented JSON and a newline; bytes that are not UTF-8 become U+FFFD.
void print_json(const nlohmann::ordered_json& value);
std::string json_text(const nlohmann::ordered_json& value);
/// "fusedmoe: warning: ..." on stderr.
void print_warning(std::string_view text);

/// True when the locale of the environment says that stdout takes UTF-8.
bool stdout_takes_utf8();
bool stderr_is_terminal();
/// Width of the terminal on stdout, 80 when there is none.
int stdout_columns();

}  // namespace fusedmoe::cli
