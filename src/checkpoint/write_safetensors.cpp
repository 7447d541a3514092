// Writes safetensors files in the order of the format's own writers: wide types first, then by
// name, so that every tensor is aligned to its element.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/strict_json.h"
#include "checkpoint/write_file.h"
#include "fusedmoe/checkpoint.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

constexpr std::size_t kHeaderAlignment = 8;

[[noreturn]] void refuse(std::string_view name, std::string_view expected, std::string_view got) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("[checkpoint] tensor {} to be written: expected {}, got {}; nothing was "
                          "written",
                          quoted_name(name), expected, got));
}

// JSON text of a string, which must be UTF-8.
std::string json_string(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    refuse(text, "names and metadata in UTF-8", "other bytes");
  }
}

bool is_contiguous(const TensorView& tensor) {
  if (tensor.row_stride == 0 || tensor.shape.rank() == 0 || tensor.shape[0] <= 1) return true;
  std::int64_t row_elements = 1;
  for (const std::int64_t dim : tensor.shape.dims().subspan(1)) row_elements *= dim;
  return tensor.row_stride == row_elements;
}

std::uint64_t checked_size(const NamedTensor& named) {
  const TensorView& tensor = named.tensor;
  const std::string_view offence = tensor_name_offence(named.name);
  if (!offence.empty()) refuse(named.name, "a name of 1 to 1024 bytes", offence);
  if (named.name == kMetadataKey) refuse(named.name, "another name", "the format's own key");
  const auto num_bytes = checked_num_bytes(tensor.dtype, tensor.shape.dims());
  if (!num_bytes) {
    refuse(named.name, "a whole number of bytes",
           fmt::format("{} of {}", tensor.shape.to_string(), dtype_name(tensor.dtype)));
  }
  if (!is_contiguous(tensor)) {
    refuse(named.name, "a contiguous tensor", fmt::format("a row stride of {}", tensor.row_stride));
  }
  if (*num_bytes > 0 && tensor.data == nullptr) refuse(named.name, "data", "a null pointer");
  return *num_bytes;
}

std::vector<const NamedTensor*> in_file_order(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> order;
  std::set<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    if (!names.insert(named.name).second) refuse(named.name, "each name once", "it twice");
    order.push_back(&named);
  }
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const int a_bits = dtype_bits(a->tensor.dtype);
    const int b_bits = dtype_bits(b->tensor.dtype);
    return a_bits != b_bits ? a_bits > b_bits : a->name < b->name;
  });
  return order;
}

std::string header_text(const std::vector<const NamedTensor*>& order,
                        std::span<const std::pair<std::string, std::string>> metadata) {
  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::set<std::string_view> keys;
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) {
      if (!keys.insert(key).second)
        refuse(kMetadataKey, "each key once", quoted_name(key) + " twice");
      pairs.push_back(fmt::format("{}:{}", json_string(key), json_string(value)));
    }
    entries.push_back(fmt::format("\"{}\":{{{}}}", kMetadataKey, fmt::join(pairs, ",")));
  }
  std::uint64_t begin = 0;
  for (const NamedTensor* named : order) {
    const std::uint64_t end = begin + checked_size(*named);
    entries.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                  json_string(named->name), dtype_name(named->tensor.dtype),
                                  fmt::join(named->tensor.shape.dims(), ","), begin, end));
    begin = end;
  }
  std::string text = fmt::format("{{{}}}", fmt::join(entries, ","));
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       std::span<const std::pair<std::string, std::string>> metadata) {
  const std::vector<const NamedTensor*> order = in_file_order(tensors);
  const std::string text = header_text(order, metadata);
  const std::uint64_t length = text.size();
  FileWriter writer(path);
  writer.append(std::as_bytes(std::span(&length, 1)));
  writer.append(std::as_bytes(std::span(text)));
  for (const NamedTensor* named : order) {
    writer.append({static_cast<const std::byte*>(named->tensor.data), checked_size(*named)});
  }
  writer.commit();
}

}  // namespace fusedmoe
