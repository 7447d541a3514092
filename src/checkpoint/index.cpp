#include "checkpoint/index.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/strict_json.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

constexpr std::size_t kMaxFileNameBytes = 255;  // of the common file systems

[[noreturn]] void refuse(std::string_view subject, const std::string& expected_and_got) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("[checkpoint] {}: {}; the index is damaged or does not belong here: fetch "
                  "it again, or remove it to read the files without it",
                  subject, expected_and_got));
}

void check_entry(std::string_view tensor, const nlohmann::json& file, std::string_view subject) {
  const std::string where = fmt::format("{}, tensor {}", subject, quoted_name(tensor));
  if (const std::string_view offence = tensor_name_offence(tensor); !offence.empty()) {
    refuse(where, fmt::format("expected a tensor name, got {}", offence));
  }
  if (!file.is_string()) {
    refuse(where, fmt::format("expected a file name, got a JSON {}", file.type_name()));
  }
  const auto& name = file.get_ref<const std::string&>();
  if (const std::string_view offence = base_name_offence(name); !offence.empty()) {
    refuse(where, fmt::format("expected the name of a file in the same folder, got {}: {}",
                              quoted_name(name), offence));
  }
  if (!name.ends_with(".safetensors")) {
    refuse(where, fmt::format("expected a name ending in .safetensors, got {}", quoted_name(name)));
  }
}

}  // namespace

SafetensorsIndex parse_index(std::string_view text, std::string_view subject) {
  const nlohmann::json json = parse_strict(text, kIndexJsonLimits, subject);
  const bool has_map =
      json.is_object() && json.contains("weight_map") && json["weight_map"].is_object();
  if (!has_map) {
    refuse(subject, "expected an object weight_map from tensor names to file names, got none");
  }
  SafetensorsIndex index;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    check_entry(tensor, file, subject);
    index.files[file.get_ref<const std::string&>()].push_back(tensor);
  }
  if (index.files.empty()) refuse(subject, "expected tensors in weight_map, got an empty object");
  const auto metadata = json.find("metadata");
  if (metadata != json.end() && metadata->is_object()) {
    const auto total = metadata->find("total_size");
    if (total != metadata->end() && total->is_number()) index.total_size = total->get<double>();
  }
  return index;
}

std::string_view base_name_offence(std::string_view name) noexcept {
  if (name.empty()) return "it is empty";
  if (name.size() > kMaxFileNameBytes) return "it is longer than 255 bytes";
  if (name.find_first_of("/\\") != std::string_view::npos) return "it has a path separator";
  if (name.find("..") != std::string_view::npos) return "it has \"..\"";
  if (name == ".") return "it names the folder";
  if (name.find(':') != std::string_view::npos) return "it has a colon (a drive or a stream)";
  const bool has_control = std::any_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  return has_control ? "it has a control character" : "";
}

}  // namespace fusedmoe
