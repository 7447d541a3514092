#include "checkpoint/safetensors_entries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

using Kind = JsonEvent::Kind;

// Far above any published checkpoint, far below what could exhaust memory.
constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxMetadataEntries = 65'536;
constexpr std::size_t kMaxMetadataValueBytes = std::size_t{16} << 20;
constexpr std::uint64_t kMaxDim = std::uint64_t{1} << 48;

constexpr std::array<std::string_view, 3> kFieldNames = {"dtype", "shape", "data_offsets"};

std::string got(const JsonEvent& event) {
  if (event.kind == Kind::kNumber) return fmt::format("the number {}", quoted_name(event.text));
  return std::string(json_kind_name(event.kind));
}

}  // namespace

void HeaderEntries::refuse(std::string_view expected, std::string_view got_what) const {
  const std::string where = name_.empty() ? std::string(", header")
                            : name_ == kMetadataKey
                                ? fmt::format(", {}", name_)
                                : fmt::format(", tensor {}", quoted_name(name_));
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("[checkpoint] {}{}: expected {}, got {}; the file is damaged or was written "
                  "by a faulty tool: fetch or write it again",
                  subject_, where, expected, got_what));
}

void HeaderEntries::take(const JsonEvent& event) {
  if (event.depth == 0) {
    if (event.kind != Kind::kStartObject && event.kind != Kind::kEndObject) {
      refuse("one JSON object", got(event));
    }
    return;
  }
  if (event.depth == 1) {
    if (event.kind == Kind::kKey) return begin_entry(event.text);
    if (event.kind == Kind::kStartObject) return;
    if (event.kind == Kind::kEndObject) return finish_entry();
    refuse("an object for each entry", got(event));
  }
  if (name_ == kMetadataKey) return take_metadata(event);
  take_entry(event);
}

void HeaderEntries::begin_entry(std::string_view name) {
  name_ = name;
  has_field_ = {};
  shape_.clear();
  data_offsets_.clear();
  if (name == kMetadataKey) return;
  if (const std::string_view offence = tensor_name_offence(name); !offence.empty()) {
    refuse("a tensor name of 1 to 1024 bytes without control characters", offence);
  }
  if (header_.tensors.size() >= kMaxTensors) {
    refuse(fmt::format("at most {} tensors", kMaxTensors), "one more");
  }
}

void HeaderEntries::take_metadata(const JsonEvent& event) {
  if (event.kind == Kind::kKey) {
    metadata_key_ = event.text;
    return;
  }
  if (event.kind != Kind::kString) {
    refuse(fmt::format("a string for {}", quoted_name(metadata_key_)), got(event));
  }
  if (event.text.size() > kMaxMetadataValueBytes) {
    refuse(
        fmt::format("at most {} bytes for {}", kMaxMetadataValueBytes, quoted_name(metadata_key_)),
        fmt::format("{}", event.text.size()));
  }
  if (header_.metadata.size() >= kMaxMetadataEntries) {
    refuse(fmt::format("at most {} entries", kMaxMetadataEntries), "one more");
  }
  header_.metadata.emplace_back(metadata_key_, event.text);
}

void HeaderEntries::take_entry(const JsonEvent& event) {
  if (event.depth == 3) return take_number(event);
  if (event.kind == Kind::kEndArray) return;
  if (event.kind != Kind::kKey) return take_field(event);
  const auto* found = std::find(kFieldNames.begin(), kFieldNames.end(), event.text);
  if (found == kFieldNames.end()) {
    refuse("only the fields dtype, shape and data_offsets",
           fmt::format("a field {}", quoted_name(event.text)));
  }
  const auto index = static_cast<std::size_t>(found - kFieldNames.begin());
  field_ = static_cast<Field>(index);
  has_field_[index] = true;
}

void HeaderEntries::take_field(const JsonEvent& event) {
  if (field_ != Field::kDtype) {
    if (event.kind == Kind::kStartArray) return;
    refuse(fmt::format("an array for {}", kFieldNames[static_cast<std::size_t>(field_)]),
           got(event));
  }
  if (event.kind != Kind::kString) refuse("a string for dtype", got(event));
  // A type without a known size makes the layout unverifiable: the whole file is refused.
  const std::optional<DType> dtype = dtype_from_name(event.text);
  if (!dtype) refuse("a dtype of the safetensors format", quoted_name(event.text));
  dtype_ = *dtype;
}

void HeaderEntries::take_number(const JsonEvent& event) {
  if (field_ == Field::kShape) {
    if (event.kind != Kind::kInteger) refuse("plain non-negative integers in shape", got(event));
    if (event.integer > kMaxDim) {
      refuse("dims of at most 2^48 in shape", fmt::format("{}", event.integer));
    }
    if (shape_.size() >= Shape::kMaxRank) {
      refuse(fmt::format("at most {} dims in shape", Shape::kMaxRank), "more");
    }
    shape_.push_back(static_cast<std::int64_t>(event.integer));
    return;
  }
  if (event.kind != Kind::kInteger) {
    refuse("plain non-negative integers in data_offsets", got(event));
  }
  if (data_offsets_.size() >= 2) refuse("two numbers in data_offsets", "more");
  data_offsets_.push_back(event.integer);
}

void HeaderEntries::finish_entry() {
  if (name_ == kMetadataKey) return;
  for (std::size_t i = 0; i < kFieldNames.size(); ++i) {
    if (!has_field_[i]) refuse(fmt::format("a field {}", kFieldNames[i]), "none");
  }
  if (data_offsets_.size() != 2) {
    refuse("two numbers in data_offsets", fmt::format("{}", data_offsets_.size()));
  }
  const std::uint64_t begin = data_offsets_[0];
  const std::uint64_t end = data_offsets_[1];
  if (begin > end || end > data_bytes_) {
    refuse(fmt::format("data_offsets in order and at most {}, the bytes of data in the file",
                       data_bytes_),
           fmt::format("[{}, {}]", begin, end));
  }
  const std::optional<std::uint64_t> num_bytes = checked_num_bytes(dtype_, shape_);
  if (!num_bytes) {
    refuse("a shape whose size is a whole number of bytes below 2^61",
           fmt::format("[{}] of {}", fmt::join(shape_, ", "), dtype_name(dtype_)));
  }
  if (end - begin != *num_bytes) {
    refuse(fmt::format("{} bytes for [{}] of {}", *num_bytes, fmt::join(shape_, ", "),
                       dtype_name(dtype_)),
           fmt::format("{} (data_offsets [{}, {}])", end - begin, begin, end));
  }
  header_.tensors.push_back({name_, dtype_, Shape(shape_), 0, data_begin_ + begin, *num_bytes});
}

}  // namespace fusedmoe
