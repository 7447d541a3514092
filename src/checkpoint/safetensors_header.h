// The header of a safetensors file, read as hostile input.
//
// Layout     bytes 0..7: n, u64 little-endian; bytes 8..8+n-1: a JSON object; the rest: data
// Source     the safetensors format description, https://github.com/huggingface/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fusedmoe/checkpoint.h"

namespace fusedmoe {

inline constexpr std::uint64_t kHeaderLengthBytes = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference reader
inline constexpr std::size_t kMaxTensorNameBytes = 1024;
inline constexpr std::string_view kMetadataKey = "__metadata__";

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< by offset; offsets count from the start of the file
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// Reads the length field and checks it against the size of the file.
///
/// @param prefix  at least the first 8 bytes of the file, or the whole file when it is shorter.
/// @param subject what the bytes are, for messages: "file model.safetensors".
/// @return n, the bytes of JSON; 8 + n <= file_size.
/// @throws Error(kCorruptData).
std::uint64_t read_header_length(std::span<const std::byte> prefix, std::uint64_t file_size,
                                 std::string_view subject);

/// Parses and checks a header: strict JSON, field types, names, shapes, dtypes, and that the
/// tensors tile the data without gap or overlap to the last byte of the file. Memory is in
/// proportion to the header's text, never to a number in it. Values of tensors are not looked at.
///
/// @param prefix the file's first 8 + n bytes or more.
/// @throws Error(kCorruptData) naming the subject, the tensor and the offence.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> prefix,
                                           std::uint64_t file_size, std::string_view subject);

/// Bytes of a tensor; empty when the size overflows 64 bits or is not a whole number of bytes.
std::optional<std::uint64_t> checked_num_bytes(DType dtype,
                                               std::span<const std::int64_t> dims) noexcept;

/// Why `name` cannot name a tensor ("a control character"); empty when it can.
std::string_view tensor_name_offence(std::string_view name) noexcept;

}  // namespace fusedmoe
