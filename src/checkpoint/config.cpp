#include "checkpoint/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cmath>

#include "checkpoint/strict_json.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

using nlohmann::json;

/// Where multimodal configs keep the language model's settings.
constexpr std::array<const char*, 4> kLanguageSections = {"text_config", "language_config",
                                                          "llm_config", "thinker_config"};

const json* descend(const json& section, const std::string& path) {
  const json* at = &section;
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = path.find('.', begin);
    const std::string key = path.substr(begin, dot - begin);
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
    if (dot == std::string::npos) return at;
    begin = dot + 1;
  }
}

}  // namespace

std::string brief(const json& value) {
  constexpr std::size_t kMaxLength = 60;
  std::string text;
  if (value.is_object()) {
    text = "an object";
  } else if (value.is_array()) {
    // Nested values are named, not written: writing them would recurse as deep as the file likes.
    for (const json& entry : value) {
      text += text.empty() ? "[" : ",";
      text += entry.is_structured() ? entry.type_name() : brief(entry);
      if (text.size() > kMaxLength) break;
    }
    text += text.empty() ? "[]" : "]";
  } else {
    text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  }
  return text.size() > kMaxLength ? text.substr(0, kMaxLength) + "..." : text;
}

ModelConfig::ModelConfig(std::string_view text, std::string file)
    : root_(parse_strict(text, kConfigJsonLimits, "file " + file)), file_(std::move(file)) {
  if (!root_.is_object()) fail("root", "a JSON object", brief(root_));
  for (const char* name : kLanguageSections) {
    const auto section = root_.find(name);
    if (section == root_.end() || !section->is_object()) continue;
    if (const json* inner = descend(*section, "text_config"); inner && inner->is_object()) {
      sections_.push_back(inner);
    }
    sections_.push_back(&*section);
  }
  sections_.push_back(&root_);
}

std::vector<std::string> ModelConfig::model_types() const {
  std::vector<std::string> types;
  for (auto section = sections_.rbegin(); section != sections_.rend(); ++section) {
    const json* type = descend(**section, "model_type");
    if (type != nullptr && type->is_string()) types.push_back(type->get<std::string>());
  }
  return types;
}

const json* ModelConfig::find(const std::string& path) const {
  for (const json* section : sections_) {
    if (const json* value = descend(*section, path)) return value;
  }
  return nullptr;
}

const json* ModelConfig::find_any(const std::vector<std::string>& paths, std::string* found) const {
  for (const std::string& path : paths) {
    const json* value = find(path);
    if (value == nullptr || value->is_null()) continue;
    *found = path;
    return value;
  }
  return nullptr;
}

std::optional<std::int64_t> ModelConfig::integer(const IntKey& key, IntRange range,
                                                 int layer) const {
  std::string path;
  const json* value = find_any(key.names, &path);
  if (value == nullptr) return key.fallback;
  if (value->is_array() && layer >= 0) {
    const auto index = static_cast<std::size_t>(layer);
    if (index >= value->size()) {
      fail(path, fmt::format("an entry for layer {}", layer),
           fmt::format("{} entries", value->size()));
    }
    path = fmt::format("{}[{}]", path, layer);
    value = &(*value)[index];
  }
  const std::string expected = fmt::format("an integer in [{}, {}]", range.min, range.max);
  // Unsigned numbers beyond int64 would wrap; floats such as 8.0 are no integers either.
  const bool is_integer = value->is_number_integer() &&
                          !(value->is_number_unsigned() &&
                            value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
  if (!is_integer) fail(path, expected, brief(*value));
  const auto number = value->get<std::int64_t>();
  if (number < range.min || number > range.max) fail(path, expected, brief(*value));
  return number;
}

std::int64_t ModelConfig::required(const IntKey& key, IntRange range, int layer) const {
  const auto value = integer(key, range, layer);
  if (!value) fail(fmt::format("{}", fmt::join(key.names, " or ")), "an integer", "no such key");
  return *value;
}

std::int64_t ModelConfig::agreed(const IntKey& key, IntRange range, int layer) const {
  const std::int64_t first = required(key, range, layer);
  for (const std::string& name : key.names) {
    const auto other = integer({{name}, first}, range, layer);
    if (*other != first) {
      fail(name, fmt::format("the value of its other spelling, {}", first), std::to_string(*other));
    }
  }
  return first;
}

double ModelConfig::number(const NumberKey& key) const {
  std::string path;
  const json* value = find_any(key.names, &path);
  if (value == nullptr) {
    if (!key.fallback) {
      fail(fmt::format("{}", fmt::join(key.names, " or ")), "a number", "no such key");
    }
    return *key.fallback;
  }
  if (!value->is_number()) fail(path, "a number", brief(*value));
  const double number = value->get<double>();
  constexpr double kMaxFloat = 3.4e38;  // every such setting is used as f32
  if (!std::isfinite(number) || std::abs(number) > kMaxFloat) {
    fail(path, "a number that f32 can hold", brief(*value));
  }
  return number;
}

bool ModelConfig::flag(const FlagKey& key) const {
  std::string path;
  const json* value = find_any(key.names, &path);
  if (value == nullptr) {
    if (!key.fallback) {
      fail(fmt::format("{}", fmt::join(key.names, " or ")), "true or false", "no such key");
    }
    return *key.fallback;
  }
  if (!value->is_boolean()) fail(path, "true or false", brief(*value));
  return value->get<bool>();
}

std::string ModelConfig::text(const TextKey& key) const {
  std::string path;
  const json* value = find_any(key.names, &path);
  if (value == nullptr) {
    if (!key.fallback) {
      fail(fmt::format("{}", fmt::join(key.names, " or ")), "a text", "no such key");
    }
    return *key.fallback;
  }
  if (!value->is_string()) fail(path, "a text", brief(*value));
  return value->get<std::string>();
}

std::optional<std::vector<std::int64_t>> ModelConfig::int_list(
    const std::vector<std::string>& paths) const {
  std::string path;
  const json* value = find_any(paths, &path);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> numbers;
  if (value->is_string()) {
    const auto text = value->get<std::string>();
    const char* at = text.data();
    const char* end = at + text.size();
    while (at != end) {
      std::int64_t number = 0;
      const auto [next, problem] = std::from_chars(at, end, number);
      if (problem != std::errc{} || (next != end && *next != ',')) {
        fail(path, "layer numbers joined by commas", brief(*value));
      }
      numbers.push_back(number);
      at = next == end ? end : next + 1;
    }
    return numbers;
  }
  if (!value->is_array()) fail(path, "a list of layer numbers", brief(*value));
  for (const json& entry : *value) {
    if (!entry.is_number_integer()) fail(path, "a list of layer numbers", brief(*value));
    numbers.push_back(entry.get<std::int64_t>());
  }
  return numbers;
}

std::optional<std::vector<std::string>> ModelConfig::text_list(
    const std::vector<std::string>& paths) const {
  std::string path;
  const json* value = find_any(paths, &path);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) fail(path, "a list of texts", brief(*value));
  std::vector<std::string> texts;
  for (const json& entry : *value) {
    if (!entry.is_string()) fail(path, "a list of texts", brief(*value));
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

void ModelConfig::fail(const std::string& path, const std::string& expected,
                       const std::string& got) const {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("[checkpoint] {}: expected {}, got {} ({}), correct the config", path,
                          expected, got, file_));
}

}  // namespace fusedmoe
