// Quantized experts of random codes, and their numbers by a definition of the formats that shares
// nothing with the library.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "weights/loaded_group.h"

namespace fusedmoe::test {

/// The matrices of the whole model in f32, by tensor name without suffix and expert.
using Numbers = std::map<std::pair<std::string, std::int64_t>, std::vector<float>>;

struct QuantizedGroup {
  ExpertGroup group;
  Numbers numbers;
};

enum class Fp8Scales { kBlock, kTensor, kChannel };

/// F8_E4M3, one tensor an expert and projection; blocks of 8 x 8, which end ragged. Scales are F32
/// under ".weight_scale_inv"; kTensor has input scales too, different for w1 and w3.
QuantizedGroup fp8_group(Fp8Scales scales, const ExpertSizes& sizes);
/// MXFP4, stacked, gate and up interleaved, [E, N, K / 32, 16] with scales [E, N, K / 32].
QuantizedGroup mxfp4_group(const ExpertSizes& sizes);

/// Value of an F8_E4M3 or E2M1 code, by its fields.
double e4m3_value(std::uint8_t code);
double e2m1_value(int code);

}  // namespace fusedmoe::test
