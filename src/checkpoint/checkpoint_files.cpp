#include "checkpoint/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <regex>

#include "checkpoint/file_map.h"
#include "checkpoint/strict_json.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kSingleFileName = "model.safetensors";

struct RefusedFormat {
  std::string_view extension;
  std::string_view what;
  std::string_view advice;
};
constexpr std::string_view kPickle = "a Python pickle, which runs code when it is loaded";
constexpr std::string_view kConvert =
    "convert it to safetensors (save_pretrained(..., safe_serialization=True)) in a place that you "
    "trust";
constexpr std::array kRefusedFormats = {
    RefusedFormat{".bin", kPickle, kConvert},
    RefusedFormat{".pt", kPickle, kConvert},
    RefusedFormat{".pth", kPickle, kConvert},
    RefusedFormat{".ckpt", kPickle, kConvert},
    RefusedFormat{".pkl", kPickle, kConvert},
    RefusedFormat{".gguf", "a GGUF file, which this version does not read",
                  "use the safetensors checkpoint that it was made from"},
};

std::vector<std::string> list_names(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) {
    throw Error(ErrorCode::kDevice,
                fmt::format("[checkpoint] folder {}: expected to list it, got: {}; check the "
                            "permissions",
                            folder.string(), error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool contains(const std::vector<std::string>& sorted, std::string_view name) {
  return std::binary_search(sorted.begin(), sorted.end(), name);
}

// Hidden files are temporary names of writers and the metadata of some systems.
bool is_candidate(const std::string& name) {
  return name.ends_with(kSafetensors) && !name.starts_with(".");
}

[[noreturn]] void throw_no_tensors(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) refuse_other_formats(folder / name);
  throw Error(ErrorCode::kNotFound,
              fmt::format("[checkpoint] folder {}: expected *.safetensors files, got none among {} "
                          "entries; give the folder that holds config.json and the weights",
                          folder.string(), names.size()));
}

void check_shards_exist(const SafetensorsIndex& index, const fs::path& folder,
                        const std::vector<std::string>& present) {
  std::vector<std::string> missing;
  for (const auto& [name, tensors] : index.files) {
    if (!contains(present, name)) missing.push_back(name);
  }
  if (missing.empty()) return;
  const auto& tensors = index.files.at(missing.front());
  throw Error(ErrorCode::kNotFound,
              fmt::format("[checkpoint] folder {}: expected the shard {} with {} tensors ({} and "
                          "others), got no such file ({} of {} shards are missing); fetch the "
                          "missing files",
                          folder.string(), missing.front(), tensors.size(),
                          quoted_name(tensors.front()), missing.size(), index.files.size()));
}

// "model-00002-of-00007.safetensors" promises six others: without an index only the names tell.
void check_numbered_shards(const std::vector<std::string>& chosen, const fs::path& folder) {
  static const std::regex kShardName(R"((.*)-([0-9]{5})-of-([0-9]{5})\.safetensors)");
  for (const std::string& name : chosen) {
    std::smatch match;
    if (!std::regex_match(name, match, kShardName)) continue;
    const int num_shards = std::stoi(match[3]);
    for (int i = 1; i <= num_shards; ++i) {
      const std::string sibling =
          fmt::format("{}-{:05}-of-{:05}.safetensors", match[1].str(), i, num_shards);
      if (contains(chosen, sibling)) continue;
      throw Error(
          ErrorCode::kNotFound,
          fmt::format("[checkpoint] folder {}: expected the shard {} beside {}, got no such "
                      "file; fetch the missing files",
                      folder.string(), sibling, name));
    }
  }
}

std::vector<std::string> choose_without_index(const std::vector<std::string>& candidates) {
  if (contains(candidates, kSingleFileName)) return {std::string(kSingleFileName)};
  std::vector<std::string> chosen;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(chosen),
               [](const std::string& name) { return !name.starts_with("consolidated"); });
  return chosen.empty() ? candidates : chosen;
}

}  // namespace

CheckpointFiles find_checkpoint_files(const fs::path& folder) {
  const std::vector<std::string> names = list_names(folder);
  std::vector<std::string> candidates;
  std::copy_if(names.begin(), names.end(), std::back_inserter(candidates), is_candidate);

  CheckpointFiles files;
  if (contains(names, kIndexFileName)) {
    const fs::path path = folder / kIndexFileName;
    files.index = parse_index(read_text_file(path), fmt::format("file {}", path.string()));
    check_shards_exist(*files.index, folder, names);
    for (const auto& [name, tensors] : files.index->files) files.names.push_back(name);
  } else {
    if (candidates.empty()) throw_no_tensors(folder, names);
    files.names = choose_without_index(candidates);
    check_numbered_shards(files.names, folder);
  }
  std::set_difference(candidates.begin(), candidates.end(), files.names.begin(), files.names.end(),
                      std::back_inserter(files.ignored));
  return files;
}

void refuse_other_formats(const fs::path& file_name) {
  const std::string extension = file_name.extension().string();
  for (const RefusedFormat& format : kRefusedFormats) {
    if (extension != format.extension) continue;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("[checkpoint] file {}: expected .safetensors, got {}; {}",
                            file_name.string(), format.what, format.advice));
  }
}

}  // namespace fusedmoe
