// What is fuzzed: one function for each parser of foreign bytes.
#pragma once

#include <cstddef>
#include <span>

namespace fusedmoe::fuzz {

// Each takes any bytes and returns. An Error is a good answer; any other exception, a crash or a
// broken invariant (thrown as std::logic_error) is a finding.

/// A safetensors file: once as it is, once as the JSON of a header whose length field is right.
void fuzz_safetensors(std::span<const std::byte> input);
/// A model.safetensors.index.json.
void fuzz_index(std::span<const std::byte> input);
/// A config.json, described against the tensor names of a small Mixtral checkpoint.
void fuzz_config(std::span<const std::byte> input);

}  // namespace fusedmoe::fuzz
