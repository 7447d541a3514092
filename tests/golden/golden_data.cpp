#include "golden/golden_data.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace fusedmoe::test {
namespace {

template <class T>
std::vector<T> read(const Checkpoint& file, const std::string& name, DType dtype) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr) return {};
  if (info->dtype != dtype) throw std::runtime_error(name + " is recorded in another type");
  std::vector<T> values(info->num_bytes / sizeof(T));
  std::memcpy(values.data(), file.view(*info).data, info->num_bytes);
  return values;
}

std::string metadata(const Checkpoint& file, const std::string& key) {
  for (const auto& [name, value] : file.metadata(0)) {
    if (name == key) return value;
  }
  throw std::runtime_error("a recording without " + key);
}

}  // namespace

std::filesystem::path golden_path(const std::string& folder) {
  return std::filesystem::path(FUSEDMOE_TEST_DATA) / "golden" / folder;
}

std::vector<std::string> golden_folders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path(""))) {
    if (std::filesystem::exists(entry.path() / "golden.safetensors")) {
      folders.push_back(entry.path().filename().string());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::vector<GoldenLayer> read_golden(const std::string& folder) {
  const Checkpoint file = Checkpoint::open(golden_path(folder) / "golden.safetensors");
  std::vector<GoldenLayer> layers;
  std::istringstream numbers(metadata(file, "layers"));
  for (std::string number; std::getline(numbers, number, ',');) {
    const std::string prefix = "layers." + number + ".";
    GoldenLayer golden;
    golden.layer = std::stoi(number);
    golden.input = read<float>(file, prefix + "input", DType::kF32);
    golden.router_logits = read<float>(file, prefix + "router_logits", DType::kF32);
    golden.topk_weights = read<float>(file, prefix + "topk_weights", DType::kF32);
    golden.output = read<float>(file, prefix + "output", DType::kF32);
    golden.routed_only = read<float>(file, prefix + "routed_only", DType::kF32);
    golden.topk_ids = read<std::int32_t>(file, prefix + "topk_ids", DType::kI32);
    golden.input_ids = read<std::int32_t>(file, prefix + "input_ids", DType::kI32);
    const Shape& input = file.find(prefix + "input")->shape;
    golden.hidden_size = input[input.rank() - 1];
    golden.num_tokens = input.num_elements() / golden.hidden_size;
    const auto columns = [&](std::size_t size) {
      return static_cast<std::int64_t>(size) / golden.num_tokens;
    };
    golden.num_experts = columns(golden.router_logits.size());
    golden.top_k = columns(golden.topk_ids.size());
    layers.push_back(std::move(golden));
  }
  return layers;
}

}  // namespace fusedmoe::test
