#include "scratch_folder.h"

#include <stdlib.h>

#include <algorithm>
#include <stdexcept>

namespace fusedmoe::test {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "fusedmoe_cli_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder: " + name);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> ScratchFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path golden_folder(const std::string& family) {
  return fs::path(FUSEDMOE_TEST_DATA) / "golden" / family;
}

std::vector<std::string> golden_families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(FUSEDMOE_TEST_DATA) / "golden")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void copy_golden(const std::string& family, const ScratchFolder& folder) {
  for (const auto& entry : fs::directory_iterator(golden_folder(family))) {
    fs::copy_file(entry.path(), folder.path() / entry.path().filename());
  }
}

void edit_tensors(const fs::path& file,
                  const std::function<void(std::vector<NamedTensor>&)>& edit) {
  const Checkpoint checkpoint = Checkpoint::open(file);
  std::vector<NamedTensor> tensors;
  for (const TensorInfo& info : checkpoint.tensors()) {
    tensors.push_back({info.name, checkpoint.view(info)});
  }
  edit(tensors);
  // The former file stays mapped until the end: writing replaces it by renaming.
  write_safetensors(file, tensors, checkpoint.metadata(0));
}

}  // namespace fusedmoe::test
