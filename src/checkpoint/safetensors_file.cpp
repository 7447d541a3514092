#include "checkpoint/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/strict_json.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

// By descriptor: a file that shrinks meanwhile gives an error here, not a signal.
SafetensorsHeader read_header(const FileMap& map, const std::string& subject) {
  std::vector<std::byte> prefix(std::min(map.size(), kHeaderLengthBytes));
  map.read_at(0, prefix);
  prefix.resize(kHeaderLengthBytes + read_header_length(prefix, map.size(), subject));
  map.read_at(0, prefix);
  SafetensorsHeader header = parse_safetensors_header(prefix, map.size(), subject);
  map.check_size();
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : map_(path), header_(read_header(map_, fmt::format("file {}", path.string()))) {}

TensorView SafetensorsFile::view(const TensorInfo& info) const {
  const bool is_inside = info.offset <= map_.size() &&
                         info.num_bytes <= map_.size() - info.offset &&
                         checked_num_bytes(info.dtype, info.shape.dims()) == info.num_bytes;
  if (!is_inside) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("[checkpoint] tensor {}: expected an entry of this checkpoint, got {} {} "
                    "of {} bytes at {} in a file of {}; use entries of tensors() or find()",
                    quoted_name(info.name), dtype_name(info.dtype), info.shape.to_string(),
                    info.num_bytes, info.offset, map_.size()));
  }
  map_.check_size();
  return {map_.bytes().data() + info.offset, info.dtype, info.shape};
}

}  // namespace fusedmoe
