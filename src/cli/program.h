// The program around the commands: parsing, help, errors, exit codes.
#pragma once

namespace fusedmoe::cli {

/// Parses, runs one command and returns the exit code. Every failure becomes one message on stderr
/// (and, with --json, an object {"error": {"code", "message"}} on stdout).
int run_program(int argc, const char* const* argv);

}  // namespace fusedmoe::cli
