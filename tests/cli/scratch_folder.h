// Folders for one test, and checkpoints in them that are wrong in one way.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fusedmoe/checkpoint.h"

namespace fusedmoe::test {

/// A fresh folder, removed with everything in it at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// Names of everything in the folder, sorted.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

std::filesystem::path golden_folder(const std::string& family);
/// Every folder of the golden data, sorted.
std::vector<std::string> golden_families();

/// Copies a golden checkpoint into `folder`.
void copy_golden(const std::string& family, const ScratchFolder& folder);

/// Rewrites a safetensors file with the tensors that `edit` leaves; it may drop, rename and change
/// them (views are of the file's former content).
void edit_tensors(const std::filesystem::path& file,
                  const std::function<void(std::vector<NamedTensor>&)>& edit);

}  // namespace fusedmoe::test
