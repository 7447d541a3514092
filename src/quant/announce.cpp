#include "quant/announce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "fusedmoe/error.h"
#include "quant/ecosystems.h"

namespace fusedmoe {
namespace {

using nlohmann::json;

/// A description and where it was found.
struct Description {
  json body;
  std::string source;
  std::string ecosystem;  ///< fixed by the side file; empty: the body says
};

/// Side files that are read only when config.json announces nothing.
struct SideFile {
  const char* file;
  const char* ecosystem;
};
constexpr std::array<SideFile, 3> kSideFiles = {{
    {"hf_quant_config.json", "modelopt"},
    {"quantize_config.json", "gptq"},
    {"quant_config.json", "awq"},
}};
constexpr const char* kModelslimFile = "quant_model_description.json";

json parse_object(const std::string& text, const std::string& source) {
  json body = json::parse(text, nullptr, false);
  if (!body.is_object()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("[quant] {}: expected a JSON object, got {}, fix or remove the file",
                            source, body.is_discarded() ? "malformed text" : body.type_name()));
  }
  return body;
}

const json* member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<Description> find_description(const json& config, const SideFileReader& side_file) {
  if (!side_file(kModelslimFile).empty()) return Description{{}, kModelslimFile, "modelslim"};
  const json* text_config = member(config, "text_config");
  for (const char* key : {"quantization_config", "compression_config"}) {
    const json* found = member(config, key);
    if (found == nullptr && text_config != nullptr) found = member(*text_config, key);
    if (found == nullptr) continue;
    return Description{*found, fmt::format("config.json {}", key), ""};
  }
  for (const SideFile& side : kSideFiles) {
    const std::string text = side_file(side.file);
    if (!text.empty()) return Description{parse_object(text, side.file), side.file, side.ecosystem};
  }
  return std::nullopt;
}

std::string text_of(const json& body, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const json* value = member(body, key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    if (value != nullptr && value->is_number_integer()) return value->dump();
  }
  return {};
}

/// "gptq 4-bit", "modelopt NVFP4": enough to know which checkpoint to look for instead.
std::string spoken_name(const std::string& ecosystem, const json& body) {
  std::string name = ecosystem;
  const json* inner = member(body, "quantization");
  const std::string algorithm = text_of(inner != nullptr ? *inner : body, {"quant_algo", "format"});
  if (!algorithm.empty()) name += " " + algorithm;
  const std::string bits = text_of(body, {"bits", "w_bit", "num_bits"});
  if (!bits.empty()) name += fmt::format(" {}-bit", bits);
  return name;
}

[[noreturn]] void refuse_ecosystem(const Ecosystem* known, const std::string& ecosystem,
                                   const Description& description) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("[quant] {}: {}: {}; this version runs unquantized, fp8 and mxfp4 "
                          "checkpoints, use one of those",
                          description.source, known != nullptr ? "recognized" : "unknown format",
                          spoken_name(ecosystem, description.body)));
}

const Ecosystem* find_ecosystem(std::string_view name) {
  const auto table = ecosystems();
  const auto row = std::ranges::find(table, name, &Ecosystem::name);
  return row == table.end() ? nullptr : &*row;
}

void read_ignored(const Ecosystem& ecosystem, const Description& description,
                  QuantAnnouncement& announcement) {
  for (const std::string_view key : ecosystem.ignore_keys) {
    const json* list = member(description.body, std::string(key).c_str());
    if (list == nullptr) continue;
    const bool is_text_list =
        list->is_array() && std::ranges::all_of(*list, [](const json& e) { return e.is_string(); });
    if (!is_text_list) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("[quant] {} {}: expected a list of module names, got {}, correct the "
                              "config",
                              description.source, key, list->type_name()));
    }
    for (const json& entry : *list) {
      announcement.ignored_modules.push_back(entry.get<std::string>());
    }
  }
}

std::vector<std::string> unread_keys(const Ecosystem& ecosystem, const json& body) {
  std::vector<std::string> unread;
  for (const auto& [key, value] : body.items()) {
    if (std::ranges::find(ecosystem.known_keys, key) == ecosystem.known_keys.end()) {
      unread.push_back(key);
    }
  }
  return unread;
}

}  // namespace

QuantAnnouncement default_announcement(std::string_view ecosystem) {
  QuantAnnouncement announcement;
  const Ecosystem* row = find_ecosystem(ecosystem);
  if (row == nullptr || row->read == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("[quant] ecosystem: expected one that this version runs, got \"{}\", "
                            "correct the family's layout",
                            ecosystem));
  }
  announcement.ecosystem = row->name;
  announcement.suffixes = row->suffixes;
  row->read(json::object(), announcement);
  return announcement;
}

QuantAnnouncement announce_quantization(const json& config, const SideFileReader& side_file,
                                        std::vector<std::string>& warnings) {
  const auto description = find_description(config, side_file);
  if (!description) return {};
  if (description->ecosystem.empty() && !description->body.is_object()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("[quant] {}: expected a JSON object, got {}, correct the config",
                            description->source, description->body.type_name()));
  }
  const std::string name = !description->ecosystem.empty()
                               ? description->ecosystem
                               : text_of(description->body, {"quant_method"});
  if (name.empty()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("[quant] {}: expected a quant_method, got none, correct the config",
                            description->source));
  }
  const Ecosystem* row = find_ecosystem(name);
  if (row == nullptr || row->read == nullptr) refuse_ecosystem(row, name, *description);
  QuantAnnouncement announcement;
  announcement.ecosystem = row->name;
  announcement.suffixes = row->suffixes;
  row->read(description->body, announcement);
  read_ignored(*row, *description, announcement);
  if (const auto unread = unread_keys(*row, description->body); !unread.empty()) {
    warnings.push_back(
        fmt::format("{}: nothing reads {}", description->source, fmt::join(unread, ", ")));
  }
  return announcement;
}

}  // namespace fusedmoe
