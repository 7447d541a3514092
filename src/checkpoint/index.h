// model.safetensors.index.json: which file of a folder holds which tensor.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fusedmoe {

inline constexpr std::string_view kIndexFileName = "model.safetensors.index.json";

struct SafetensorsIndex {
  /// File name -> names of its tensors, as the index claims them; both sorted.
  std::map<std::string, std::vector<std::string>> files;
  /// metadata.total_size; some tools write it as 1.5e9, or wrongly, or not at all.
  std::optional<double> total_size;
};

/// Parses an index. File names must be plain base names that end in ".safetensors".
/// @throws Error(kCorruptData) naming the subject, the tensor and the offence.
SafetensorsIndex parse_index(std::string_view text, std::string_view subject);

/// Why `name` may not be opened inside a folder ("a path separator"); empty when it may.
std::string_view base_name_offence(std::string_view name) noexcept;

}  // namespace fusedmoe
