// A safetensors reader for trusted test data only: the whole file in memory, no checks.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/half.h"

namespace fusedmoe::test {

class TinySafetensors {
 public:
  explicit TinySafetensors(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error("cannot open " + path);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes_.data(), 8);
    begin_ = 8 + header_bytes;
    const auto end = bytes_.begin() + static_cast<std::ptrdiff_t>(begin_);
    header_ = nlohmann::json::parse(bytes_.begin() + 8, end);
  }

  std::string metadata(const std::string& key) const { return header_["__metadata__"].at(key); }
  std::vector<std::int64_t> shape(const std::string& name) const {
    return header_.at(name)["shape"].get<std::vector<std::int64_t>>();
  }
  const char* data(const std::string& name) const {
    return bytes_.data() + begin_ + header_.at(name)["data_offsets"][0].get<std::size_t>();
  }
  /// The bytes as they are; T must be the tensor's type.
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const std::size_t first = header_.at(name)["data_offsets"][0];
    const std::size_t last = header_.at(name)["data_offsets"][1];
    std::vector<T> out((last - first) / sizeof(T));
    std::memcpy(out.data(), data(name), last - first);
    return out;
  }
  /// An F32, BF16 or F16 tensor, widened.
  std::vector<float> floats(const std::string& name) const {
    const DType dtype = *dtype_from_name(header_.at(name)["dtype"].get<std::string>());
    std::int64_t count = 1;
    for (const std::int64_t dim : shape(name)) count *= dim;
    std::vector<float> out;
    for (std::int64_t i = 0; i < count; ++i) out.push_back(load_as_f32(data(name), dtype, i));
    return out;
  }

 private:
  std::vector<char> bytes_;
  std::size_t begin_ = 0;
  nlohmann::json header_;
};

}  // namespace fusedmoe::test
