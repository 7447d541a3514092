#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "checkpoint/safetensors_header.h"
#include "fusedmoe/error.h"
#include "fuzz/fuzz_targets.h"

namespace fusedmoe::fuzz {
namespace {

void require(bool holds, const char* invariant) {
  if (!holds) throw std::logic_error(invariant);
}

void parse_and_check(std::span<const std::byte> prefix, std::uint64_t file_size) {
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(prefix, file_size, "fuzzed file");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kCorruptData, "a bad file is corrupt data");
    return;
  }
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), sizeof(length));
  std::uint64_t end = 8 + length;
  for (const TensorInfo& tensor : header.tensors) {
    require(tensor.offset == end, "tensors follow each other");
    require(checked_num_bytes(tensor.dtype, tensor.shape.dims()) == tensor.num_bytes,
            "sizes follow from shapes");
    require(tensor_name_offence(tensor.name).empty(), "names are sound");
    end += tensor.num_bytes;
  }
  require(end == file_size, "tensors end with the file");
}

}  // namespace

void fuzz_safetensors(std::span<const std::byte> input) {
  parse_and_check(input, input.size());

  // Most mutations break the length field or the file's size: the second reading repairs both. The
  // first two bytes say how much data there is.
  if (input.size() < 2) return;
  const auto data_bytes =
      static_cast<std::uint64_t>(input[0]) << 8 | static_cast<std::uint64_t>(input[1]);
  const std::uint64_t length = input.size() - 2;
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, sizeof(length));
  prefix.append(reinterpret_cast<const char*>(input.data()) + 2, length);
  parse_and_check(std::as_bytes(std::span(prefix)), prefix.size() + data_bytes);
}

}  // namespace fusedmoe::fuzz
