#include "checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>

#include "checkpoint/safetensors_entries.h"
#include "checkpoint/strict_json.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

// Swapping the bytes of every kernel's input is work that no user has asked for.
static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian: big-endian hosts are refused");

constexpr std::string_view kGitLfsMagic = "version https://git-lfs";

[[noreturn]] void refuse(std::string_view subject, const std::string& expected_and_got,
                         std::string_view advice =
                             "the file is damaged or not a safetensors file: "
                             "fetch it again") {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("[checkpoint] {}: {}; {}", subject, expected_and_got, advice));
}

// Sorted by offset, the tensors must follow each other exactly from the first to the last byte.
void check_tiling(const std::vector<TensorInfo>& tensors, std::uint64_t data_begin,
                  std::uint64_t file_size, std::string_view subject) {
  std::uint64_t end = data_begin;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset != end) {
      const std::string before = previous == nullptr
                                     ? "the start"
                                     : fmt::format("the end of {}", quoted_name(previous->name));
      refuse(fmt::format("{}, tensor {}", subject, quoted_name(tensor.name)),
             fmt::format("expected data to begin at {} ({}), got {} ({} of {} bytes)",
                         end - data_begin, before, tensor.offset - data_begin,
                         tensor.offset < end ? "an overlap" : "a gap",
                         tensor.offset < end ? end - tensor.offset : tensor.offset - end));
    }
    end = tensor.offset + tensor.num_bytes;
    previous = &tensor;
  }
  if (end != file_size) {
    refuse(subject, fmt::format("expected {} bytes (the end of the last tensor), got {} ({} bytes "
                                "belong to no tensor)",
                                end, file_size, file_size - end));
  }
}

// std::tie and not names alone: empty tensors share their offset with the next one.
bool lies_before(const TensorInfo& a, const TensorInfo& b) {
  return std::tie(a.offset, a.num_bytes, a.name) < std::tie(b.offset, b.num_bytes, b.name);
}

}  // namespace

std::uint64_t read_header_length(std::span<const std::byte> prefix, std::uint64_t file_size,
                                 std::string_view subject) {
  if (file_size < kHeaderLengthBytes || prefix.size() < kHeaderLengthBytes) {
    refuse(subject, fmt::format("expected at least {} bytes, got {}", kHeaderLengthBytes,
                                std::min<std::uint64_t>(file_size, prefix.size())));
  }
  if (std::memcmp(prefix.data(), kGitLfsMagic.data(), kHeaderLengthBytes) == 0) {
    refuse(subject, "expected a safetensors file, got the placeholder of Git LFS",
           "run `git lfs pull` in the folder");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), sizeof(length));
  const std::uint64_t limit = std::min(kMaxHeaderBytes, file_size - kHeaderLengthBytes);
  if (length < 2 || length > limit) {
    refuse(subject, fmt::format("expected a header of 2 to {} bytes in a file of {}, got a length "
                                "field of {}",
                                limit, file_size, length));
  }
  return length;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> prefix,
                                           std::uint64_t file_size, std::string_view subject) {
  const std::uint64_t length = read_header_length(prefix, file_size, subject);
  const std::uint64_t data_begin = kHeaderLengthBytes + length;
  if (prefix.size() < data_begin) {
    refuse(subject, fmt::format("expected {} bytes up to the end of the header, got {}", data_begin,
                                prefix.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(prefix.data()) + kHeaderLengthBytes,
                              length);
  HeaderEntries entries(subject, data_begin, file_size - data_begin);
  read_strict(text, kHeaderJsonLimits, fmt::format("{}, header", subject),
              [&](const JsonEvent& event) { entries.take(event); });
  SafetensorsHeader header = std::move(entries).finish();
  std::sort(header.tensors.begin(), header.tensors.end(), lies_before);
  check_tiling(header.tensors, data_begin, file_size, subject);
  return header;
}

std::optional<std::uint64_t> checked_num_bytes(DType dtype,
                                               std::span<const std::int64_t> dims) noexcept {
  // Zeros are left out of the product, so that they cannot hide the overflow of the others.
  auto num_bits = static_cast<std::uint64_t>(dtype_bits(dtype));
  bool is_empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      is_empty = true;
    } else if (__builtin_mul_overflow(num_bits, static_cast<std::uint64_t>(dim), &num_bits)) {
      return std::nullopt;
    }
  }
  if (is_empty) return 0;
  if (num_bits % 8 != 0) return std::nullopt;
  return num_bits / 8;
}

std::string_view tensor_name_offence(std::string_view name) noexcept {
  if (name.empty()) return "an empty name";
  if (name.size() > kMaxTensorNameBytes) return "a name of more than 1024 bytes";
  const bool has_control = std::any_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  return has_control ? "a control character in the name" : "";
}

}  // namespace fusedmoe
