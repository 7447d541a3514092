// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace fusedmoe {

/// What kind of thing went wrong. The CLI maps these to exit codes and Python to exception types
/// (docs/errors.md).
enum class ErrorCode {
  kInvalidArgument,  ///< the caller passed a wrong shape, dtype, range or combination
  kUnsupported,      ///< a legal request that this build or this machine cannot serve
  kNotFound,         ///< a file, tensor, layer or model family that is not there
  kCorruptData,      ///< a file whose content breaks its own format
  kOutOfMemory,      ///< memory could not be had; the message names the bytes
  kDevice,           ///< an accelerator or the operating system refused
  kComm,             ///< communication between ranks failed
  kTimeout,          ///< a wait passed its limit
  kInternal,         ///< a broken promise of the library itself: please report it
};

/// A place in the library's source. (Clang 14 has no std::source_location with libstdc++ 12.)
struct SourceLocation {
  const char* file = "";
  int line = 0;
  const char* function = "";

  /// The place of the call, when used as a default argument.
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          int line = __builtin_LINE(),
                                          const char* function = __builtin_FUNCTION()) noexcept {
    return {file, line, function};
  }
};

/// The name of a code, as printed and as written to JSON: "invalid_argument", "corrupt_data", ...
std::string_view error_code_name(ErrorCode code) noexcept;

/// Thrown by every function of the library that can fail.
///
/// `what()` reads `[part] subject: expected ..., got ... (where), what to do`.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message,
        SourceLocation where = SourceLocation::current());

  ErrorCode code() const noexcept { return code_; }
  /// Where in the library's source the error was raised.
  const SourceLocation& where() const noexcept { return where_; }

 private:
  ErrorCode code_;
  SourceLocation where_;
};

}  // namespace fusedmoe
