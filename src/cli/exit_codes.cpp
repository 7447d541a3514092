#include "exit_codes.h"

#include <fmt/format.h>

#include <iterator>

namespace fusedmoe::cli {
namespace {

struct CodeRow {
  ErrorCode error;
  ExitCode exit;
};

constexpr CodeRow kCodes[] = {
    {ErrorCode::kInvalidArgument, kUsage},
    {ErrorCode::kNotFound, kExitNotFound},
    {ErrorCode::kCorruptData, kExitCorruptData},
    {ErrorCode::kUnsupported, kExitUnsupported},
    {ErrorCode::kOutOfMemory, kExitOutOfMemory},
    {ErrorCode::kDevice, kExitDevice},
    {ErrorCode::kComm, kExitComm},
    {ErrorCode::kTimeout, kExitTimeout},
    {ErrorCode::kInternal, kExitInternal},
};

struct HelpRow {
  ExitCode exit;
  const char* meaning;
};

constexpr HelpRow kHelp[] = {
    {kSuccess, "done; for verify: everything is right"},
    {kVerdictFailed, "verify: something is missing, unused, misshapen or over tolerance"},
    {kUsage, "wrong options, shapes, dtypes or values"},
    {kExitNotFound, "no such file, tensor, layer or family"},
    {kExitCorruptData, "a file breaks its own format, or does not fit the model"},
    {kExitUnsupported, "a legal request that this build or machine cannot serve"},
    {kExitOutOfMemory, "memory could not be had"},
    {kExitDevice, "the operating system refused: full disk, no permission"},
    {kExitComm, "communication between ranks failed"},
    {kExitTimeout, "a wait passed its limit"},
    {kExitInternal, "a fault of the program itself: please report it"},
};

}  // namespace

int exit_code_for(ErrorCode code) noexcept {
  for (const CodeRow& row : kCodes) {
    if (row.error == code) return row.exit;
  }
  return kExitInternal;
}

std::string exit_codes_help() {
  std::string text = "Exit codes:\n";
  for (const HelpRow& row : kHelp) {
    fmt::format_to(std::back_inserter(text), "  {:>2}  {}\n", static_cast<int>(row.exit),
                   row.meaning);
  }
  return text;
}

}  // namespace fusedmoe::cli
