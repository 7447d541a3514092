// JSON from files that nobody vouches for: one strict reader for headers, indexes and
// configurations.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fusedmoe {

struct JsonLimits {
  int max_depth = 64;  ///< containers open at once; the outermost counts as one
  /// Accept the bare words NaN, Infinity and -Infinity that Python's json module writes. They come
  /// out as {"__float__": "Infinity"}, the form in which newer configurations spell them.
  bool accept_python_constants = false;
};

inline constexpr JsonLimits kHeaderJsonLimits{.max_depth = 4};
inline constexpr JsonLimits kIndexJsonLimits{};
inline constexpr JsonLimits kConfigJsonLimits{.accept_python_constants = true};

/// One step through a document, in its order.
struct JsonEvent {
  enum class Kind {
    kStartObject,
    kEndObject,
    kStartArray,
    kEndArray,
    kKey,
    kString,
    kInteger,  ///< a plain non-negative integer, at most 2^63 - 1
    kNumber,   ///< any other number: 1.0, 1e3, -0, 2^63
    kBoolean,
    kNull,
  };
  Kind kind;
  int depth;              ///< containers around this key, value or container
  std::string_view text;  ///< kKey, kString: the decoded text; kNumber: as written
  std::uint64_t integer = 0;
};

/// "an object", "a string": what a message calls a value.
std::string_view json_kind_name(JsonEvent::Kind kind) noexcept;

/// Walks through `text` and gives each event to `sink`, without building a tree.
///
/// Refused: byte order marks, NUL bytes, invalid UTF-8, anything but JSON white space around the
/// one value, duplicate keys in any object, nesting beyond the limit.
/// @param subject what the text is, for messages: "file config.json".
/// @throws Error(kCorruptData) naming the subject, the place and the offence; whatever `sink`
/// throws.
void read_strict(std::string_view text, const JsonLimits& limits, std::string_view subject,
                 const std::function<void(const JsonEvent&)>& sink);

/// The document as a tree, after the checks of `read_strict`. Same errors.
nlohmann::json parse_strict(std::string_view text, const JsonLimits& limits,
                            std::string_view subject);

/// Text from a file, fit for a message: in quotes, control characters escaped, shortened.
std::string quoted_name(std::string_view text);

}  // namespace fusedmoe
