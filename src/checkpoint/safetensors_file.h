// One safetensors file: its checked header and its mapping.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/file_map.h"
#include "checkpoint/safetensors_header.h"

namespace fusedmoe {

class SafetensorsFile {
 public:
  /// Opens, maps and checks. Only the header is read.
  /// @throws the errors of FileMap and of parse_safetensors_header.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const SafetensorsHeader& header() const noexcept { return header_; }
  /// Hands the entries over to the table of the whole checkpoint.
  std::vector<TensorInfo> take_tensors() { return std::exchange(header_.tensors, {}); }
  /// A view into the mapping, valid while this object lives.
  /// @throws Error(kInvalidArgument) when `info` does not lie in this file,
  ///         Error(kCorruptData) when the file has changed its size since it was opened.
  TensorView view(const TensorInfo& info) const;

 private:
  FileMap map_;
  SafetensorsHeader header_;
};

}  // namespace fusedmoe
