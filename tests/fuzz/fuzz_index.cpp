#include <stdexcept>
#include <string_view>

#include "checkpoint/index.h"
#include "fusedmoe/error.h"
#include "fuzz/fuzz_targets.h"

namespace fusedmoe::fuzz {

void fuzz_index(std::span<const std::byte> input) {
  SafetensorsIndex index;
  try {
    index =
        parse_index({reinterpret_cast<const char*>(input.data()), input.size()}, "fuzzed index");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCorruptData) return;
    throw std::logic_error("a bad index is corrupt data");
  }
  for (const auto& [file, tensors] : index.files) {
    if (!base_name_offence(file).empty() || tensors.empty()) {
      throw std::logic_error("an index names plain files, each for a reason");
    }
  }
}

}  // namespace fusedmoe::fuzz
