// How the program ends: one number for each kind of outcome (docs/cli.md).
#pragma once

#include <string>

#include "fusedmoe/error.h"

namespace fusedmoe::cli {

enum ExitCode : int {
  kSuccess = 0,
  kVerdictFailed = 1,  ///< `verify` ran and found the checkpoint or a result wrong
  kUsage = 2,          ///< wrong options, shapes or values
  kExitNotFound = 3,
  kExitCorruptData = 4,
  kExitUnsupported = 5,
  kExitOutOfMemory = 6,
  kExitDevice = 7,  ///< the operating system or an accelerator refused (full disk, permission)
  kExitComm = 8,
  kExitTimeout = 9,
  kExitInternal = 70,  ///< sysexits.h: EX_SOFTWARE
};

int exit_code_for(ErrorCode code) noexcept;

/// The table of codes for `--help`.
std::string exit_codes_help();

}  // namespace fusedmoe::cli
