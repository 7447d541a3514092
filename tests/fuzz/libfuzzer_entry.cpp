// The entry point that libFuzzer calls, for the target that the build names.
#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fusedmoe::fuzz::FUSEDMOE_FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
