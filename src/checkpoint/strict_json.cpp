#include "checkpoint/strict_json.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <set>
#include <vector>

#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

[[noreturn]] void refuse(std::string_view subject, const std::string& offence) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("[checkpoint] {}: expected strict JSON, got {}; the file is damaged or was "
                  "written by a faulty tool: fetch or write it again",
                  subject, offence));
}

// The parser's own message without its library prefix; it may quote a token of any length.
std::string parser_message(const char* what) {
  constexpr std::size_t kMaxLength = 300;
  std::string message = what;
  if (const auto end = message.find("] "); end != std::string::npos) message.erase(0, end + 2);
  if (message.size() > kMaxLength) message = message.substr(0, kMaxLength) + "...";
  return message;
}

// Adds what the parser does not check: duplicate keys and depth.
class StrictSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Kind = JsonEvent::Kind;

  StrictSax(const JsonLimits& limits, std::string_view subject,
            const std::function<void(const JsonEvent&)>& sink)
      : limits_(limits), subject_(subject), sink_(sink) {}

  bool null() override { return emit(Kind::kNull); }
  bool boolean(bool) override { return emit(Kind::kBoolean); }
  bool number_integer(number_integer_t value) override {
    // The parser takes this path only for a token with a minus sign.
    return emit(Kind::kNumber, value == 0 ? "-0" : std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMax = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    if (value > kMax) return emit(Kind::kNumber, std::to_string(value));
    return emit(Kind::kInteger, {}, value);
  }
  bool number_float(number_float_t, const string_t& token) override {
    return emit(Kind::kNumber, token);
  }
  bool string(string_t& value) override { return emit(Kind::kString, value); }
  bool binary(binary_t&) override { return true; }  // not a JSON text event
  bool start_object(std::size_t) override { return open(Kind::kStartObject); }
  bool start_array(std::size_t) override { return open(Kind::kStartArray); }
  bool end_object() override { return close(Kind::kEndObject); }
  bool end_array() override { return close(Kind::kEndArray); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second) {
      refuse(subject_, fmt::format("the key {} twice{}", quoted_name(name), place()));
    }
    level.current_key = name;
    return emit(Kind::kKey, name);
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    refuse(subject_, parser_message(e.what()) + place());
  }

 private:
  struct Level {
    std::set<std::string> keys;  // ordered: no hash for a hostile file to flood
    std::string current_key;
  };

  bool emit(Kind kind, std::string_view text = {}, std::uint64_t integer = 0) {
    sink_({kind, static_cast<int>(levels_.size()), text, integer});
    return true;
  }
  bool open(Kind kind) {
    if (static_cast<int>(levels_.size()) >= limits_.max_depth) {
      refuse(subject_, fmt::format("nesting deeper than {}{}", limits_.max_depth, place()));
    }
    emit(kind);
    levels_.emplace_back();
    return true;
  }
  bool close(Kind kind) {
    levels_.pop_back();
    return emit(kind);
  }
  // " (under 'model.layers.0.w')": the key of the outermost object, which is a tensor in a header.
  std::string place() const {
    if (levels_.size() < 2 || levels_.front().current_key.empty()) return {};
    return fmt::format(" (under {})", quoted_name(levels_.front().current_key));
  }

  const JsonLimits& limits_;
  std::string_view subject_;
  const std::function<void(const JsonEvent&)>& sink_;
  std::vector<Level> levels_;
};

// The parser skips a mark and takes a NUL for the end of the text: both would hide bytes.
void check_bytes(std::string_view text, std::string_view subject) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") refuse(subject, "a byte order mark");
  if (const auto at = text.find('\0'); at != std::string_view::npos) {
    refuse(subject, fmt::format("a NUL byte at offset {}", at));
  }
}

// Rewrites the constants outside strings; a word that is glued to something else stays an error,
// because an object may not stand there either.
std::string replace_python_constants(std::string_view text) {
  static constexpr std::array<std::string_view, 3> kConstants = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = 1;
    std::string_view constant;
    if (in_string) {
      if (text[i] == '\\' && i + 1 < text.size()) length = 2;
    } else {
      for (const std::string_view word : kConstants) {
        if (text.substr(i, word.size()) == word) constant = word;
      }
    }
    if (text[i] == '"') in_string = !in_string;
    if (constant.empty()) {
      out.append(text.substr(i, length));
    } else {
      out.append(fmt::format(R"({{"__float__": "{}"}})", constant));
      length = constant.size();
    }
    i += length;
  }
  return out;
}

void walk(std::string_view text, const JsonLimits& limits, std::string_view subject,
          const std::function<void(const JsonEvent&)>& sink) {
  check_bytes(text, subject);
  StrictSax sax(limits, subject, sink);
  nlohmann::json::sax_parse(text, &sax);
}

}  // namespace

std::string_view json_kind_name(JsonEvent::Kind kind) noexcept {
  using Kind = JsonEvent::Kind;
  switch (kind) {
    case Kind::kStartObject:
    case Kind::kEndObject:
      return "an object";
    case Kind::kStartArray:
    case Kind::kEndArray:
      return "an array";
    case Kind::kKey:
      return "a key";
    case Kind::kString:
      return "a string";
    case Kind::kInteger:
      return "an integer";
    case Kind::kNumber:
      return "a number";
    case Kind::kBoolean:
      return "a boolean";
    case Kind::kNull:
      return "null";
  }
  return "nothing";
}

void read_strict(std::string_view text, const JsonLimits& limits, std::string_view subject,
                 const std::function<void(const JsonEvent&)>& sink) {
  if (!limits.accept_python_constants) return walk(text, limits, subject, sink);
  walk(replace_python_constants(text), limits, subject, sink);
}

nlohmann::json parse_strict(std::string_view text, const JsonLimits& limits,
                            std::string_view subject) {
  const std::string plain =
      limits.accept_python_constants ? replace_python_constants(text) : std::string(text);
  walk(plain, limits, subject, [](const JsonEvent&) {});
  return nlohmann::json::parse(plain);
}

std::string quoted_name(std::string_view text) {
  constexpr std::size_t kMaxLength = 160;
  std::string out = "'";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool starts_character = (byte & 0xC0U) != 0x80U;
    if (i >= kMaxLength && starts_character) return out + "...'";
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += text[i];
    }
  }
  return out + "'";
}

}  // namespace fusedmoe
