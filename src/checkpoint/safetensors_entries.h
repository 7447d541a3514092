// From the events of a header's JSON to its entries, one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/strict_json.h"

namespace fusedmoe {

/// Receives a header's events in order and checks each entry by itself: field names and types,
/// numbers, name, dtype, shape, range inside the data.
class HeaderEntries {
 public:
  /// @param data_begin offset of the data in the file; @param data_bytes what follows it.
  HeaderEntries(std::string_view subject, std::uint64_t data_begin, std::uint64_t data_bytes)
      : subject_(subject), data_begin_(data_begin), data_bytes_(data_bytes) {}

  /// @throws Error(kCorruptData) naming the tensor and the offence.
  void take(const JsonEvent& event);
  SafetensorsHeader finish() && { return std::move(header_); }

 private:
  enum class Field { kDtype, kShape, kDataOffsets };

  void begin_entry(std::string_view name);
  void take_entry(const JsonEvent& event);
  void take_metadata(const JsonEvent& event);
  void take_field(const JsonEvent& event);
  void take_number(const JsonEvent& event);
  void finish_entry();
  [[noreturn]] void refuse(std::string_view expected, std::string_view got) const;

  std::string_view subject_;
  std::uint64_t data_begin_;
  std::uint64_t data_bytes_;
  SafetensorsHeader header_;

  // The entry being read.
  std::string name_;
  std::string metadata_key_;
  Field field_ = Field::kDtype;
  std::array<bool, 3> has_field_{};
  DType dtype_ = DType::kF32;
  std::vector<std::int64_t> shape_;
  std::vector<std::uint64_t> data_offsets_;
};

}  // namespace fusedmoe
