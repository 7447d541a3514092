#include "owned_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "fusedmoe/error.h"

namespace fusedmoe::cli {

OwnedTensor make_tensor(DType dtype, const Shape& shape) {
  if (shape.num_elements() < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[cli] tensor: expected no negative dim, got {}, pass a shape of sizes",
                            shape.to_string()));
  }
  const auto elements = static_cast<std::size_t>(shape.num_elements());
  const auto bits = static_cast<std::size_t>(dtype_bits(dtype));
  return {dtype, shape, std::vector<std::byte>((elements * bits + 7) / 8)};
}

OwnedTensor converted(TensorView from, DType dtype) {
  OwnedTensor result = make_tensor(dtype, from.shape);
  convert(from, result.view());
  return result;
}

OwnedTensor read_tensor(const Checkpoint& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr) {
    std::vector<std::string> names;
    for (const TensorInfo& other : file.tensors()) names.push_back(other.name);
    throw Error(ErrorCode::kNotFound,
                fmt::format("[cli] tensor '{}': expected in {}, got only [{}], add it to the file",
                            name, file.path().string(), fmt::join(names, ", ")));
  }
  OwnedTensor result{info->dtype, info->shape, std::vector<std::byte>(info->num_bytes)};
  if (!result.bytes.empty()) {
    std::memcpy(result.bytes.data(), file.view(*info).data, result.bytes.size());
  }
  return result;
}

}  // namespace fusedmoe::cli
