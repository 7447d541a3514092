#include "fusedmoe/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "checkpoint/checkpoint_files.h"
#include "checkpoint/file_map.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/strict_json.h"
#include "fusedmoe/error.h"

namespace fusedmoe {

namespace fs = std::filesystem;

struct Checkpoint::Impl {
  fs::path path;
  fs::path folder;
  CheckpointFiles chosen;
  std::vector<SafetensorsFile> files;
  std::vector<TensorInfo> tensors;
  std::string config_json;
  std::vector<std::string> warnings;

  void open_folder();
  void open_single_file();
  void map_files();
  void check_duplicates() const;
  void check_against_index();
  void warn_of_ignored_files();
  const TensorInfo* find(std::string_view name) const noexcept;
};

void Checkpoint::Impl::open_folder() {
  folder = path;
  chosen = find_checkpoint_files(folder);
  const fs::path config = folder / "config.json";
  std::error_code error;
  if (!fs::exists(config, error)) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("[checkpoint] folder {}: expected config.json beside the weights, got no "
                    "such file; fetch it, or give one .safetensors file",
                    folder.string()));
  }
  config_json = read_text_file(config);
}

void Checkpoint::Impl::open_single_file() {
  refuse_other_formats(path);
  folder = path.parent_path();
  chosen.names = {path.filename().string()};
  const fs::path config = folder / "config.json";
  std::error_code error;
  if (fs::exists(config, error)) config_json = read_text_file(config);
}

void Checkpoint::Impl::map_files() {
  for (const std::string& name : chosen.names) {
    SafetensorsFile& file = files.emplace_back(folder / name);
    std::vector<TensorInfo> entries = file.take_tensors();
    for (TensorInfo& entry : entries) entry.file = static_cast<int>(files.size()) - 1;
    std::move(entries.begin(), entries.end(), std::back_inserter(tensors));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
}

void Checkpoint::Impl::check_duplicates() const {
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twice == tensors.end()) return;
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("[checkpoint] folder {}, tensor {}: expected it in one file, got it in {} "
                  "and {}; remove the file that does not belong to this checkpoint",
                  folder.string(), quoted_name(twice->name),
                  chosen.names[static_cast<std::size_t>(twice->file)],
                  chosen.names[static_cast<std::size_t>(std::next(twice)->file)]));
}

void Checkpoint::Impl::check_against_index() {
  if (!chosen.index) return;
  std::size_t num_mapped = 0;
  for (const auto& [file, names] : chosen.index->files) {
    num_mapped += names.size();
    for (const std::string& name : names) {
      const TensorInfo* info = find(name);
      const auto* got =
          info == nullptr ? nullptr : &chosen.names[static_cast<std::size_t>(info->file)];
      if (got != nullptr && *got == file) continue;
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("[checkpoint] folder {}, tensor {}: expected it in {} (index), got {}; "
                      "index and files are of different downloads: fetch them again",
                      folder.string(), quoted_name(name), file,
                      got == nullptr ? "it in no file" : "it in " + *got));
    }
  }
  if (num_mapped != tensors.size()) {
    warnings.push_back(fmt::format("{} of {} tensors are in the files but not in {}",
                                   tensors.size() - num_mapped, tensors.size(), kIndexFileName));
  }
  const double total = std::accumulate(
      tensors.begin(), tensors.end(), 0.0,
      [](double sum, const TensorInfo& info) { return sum + static_cast<double>(info.num_bytes); });
  if (chosen.index->total_size && *chosen.index->total_size != total) {
    warnings.push_back(
        fmt::format("{} states a total_size of {:.0f} bytes, the tensors have {:.0f}",
                    kIndexFileName, *chosen.index->total_size, total));
  }
}

void Checkpoint::Impl::warn_of_ignored_files() {
  if (chosen.ignored.empty()) return;
  constexpr std::size_t kMaxNamed = 4;
  const auto named = std::span(chosen.ignored).first(std::min(kMaxNamed, chosen.ignored.size()));
  warnings.push_back(fmt::format("{} other .safetensors files of the folder are not read: {}{}",
                                 chosen.ignored.size(), fmt::join(named, ", "),
                                 named.size() < chosen.ignored.size() ? ", ..." : ""));
}

const TensorInfo* Checkpoint::Impl::find(std::string_view name) const noexcept {
  const auto at = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const TensorInfo& info, std::string_view key) { return info.name < key; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const fs::path& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    impl->open_folder();
  } else {
    impl->open_single_file();
  }
  impl->map_files();
  impl->check_duplicates();
  impl->check_against_index();
  impl->warn_of_ignored_files();
  return Checkpoint(std::move(impl));
}

const fs::path& Checkpoint::path() const noexcept { return impl_->path; }

std::span<const std::string> Checkpoint::files() const noexcept { return impl_->chosen.names; }

std::span<const TensorInfo> Checkpoint::tensors() const noexcept { return impl_->tensors; }

const TensorInfo* Checkpoint::find(std::string_view name) const noexcept {
  return impl_->find(name);
}

TensorView Checkpoint::view(const TensorInfo& info) const {
  if (info.file < 0 || static_cast<std::size_t>(info.file) >= impl_->files.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[checkpoint] tensor {}: expected a file index below {}, got {}; use "
                            "entries of tensors() or find()",
                            quoted_name(info.name), impl_->files.size(), info.file));
  }
  return impl_->files[static_cast<std::size_t>(info.file)].view(info);
}

const std::string& Checkpoint::config_json() const noexcept { return impl_->config_json; }

std::string Checkpoint::side_file(std::string_view name) const {
  if (const std::string_view offence = base_name_offence(name); !offence.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[checkpoint] side file {}: expected a plain file name, but {}; give a "
                            "name in the checkpoint's folder",
                            quoted_name(name), offence));
  }
  const fs::path path = impl_->folder / name;
  std::error_code error;
  return fs::exists(path, error) ? read_text_file(path) : std::string();
}

std::span<const std::pair<std::string, std::string>> Checkpoint::metadata(int file) const {
  return impl_->files.at(static_cast<std::size_t>(file)).header().metadata;
}

std::span<const std::string> Checkpoint::warnings() const noexcept { return impl_->warnings; }

}  // namespace fusedmoe
