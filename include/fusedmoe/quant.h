// How the numbers of a checkpoint are stored: one struct describes every scheme.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusedmoe/dtype.h"

namespace fusedmoe {

/// The code of one weight element.
enum class PayloadFormat {
  kUnquantized,  ///< F32, BF16 or F16 as stored
  kF8E4M3,
  kF8E4M3Fnuz,
  kF8E5M2,
  kE2M1,   ///< 4-bit float (MXFP4, NVFP4)
  kInt8,   ///< signed
  kUint8,  ///< unsigned with a zero point
  kInt4,   ///< signed or offset-binary, see packing
  kNf4,
  kGguf,  ///< a GGUF block type; the tensor says which
};

/// How elements narrower than a byte (or packed in words) lie in memory.
enum class Packing {
  kNone,              ///< one element per storage element
  kNibblesLowFirst,   ///< two consecutive K elements per byte, even K in the low nibble
  kNibblesHighFirst,  ///< bitsandbytes
  kGptqK8,            ///< int32, eight consecutive K rows
  kAwqN8,             ///< int32, eight N columns in AWQ's order
  kWordsK,            ///< compressed-tensors: int32, consecutive K elements of a row
  kGgufBlock,
};

enum class ScaleGranularity { kNone, kTensor, kChannel, kGroup, kBlock };

/// Role of a tensor that belongs to a weight.
enum class ParamRole {
  kWeight,
  kBias,
  kWeightScale,
  kWeightScale2,
  kInputScale,
  kZeroPoint,
  kGIdx,
  kWeightShape,
};

enum class ActivationScaling { kNone, kStaticTensor, kDynamicTensor, kDynamicToken, kDynamicGroup };

/// A complete description of one scheme. `payload == kUnquantized` is the scheme of plain files.
struct QuantScheme {
  std::string name = "none";  ///< for people: "none", "fp8_block", "mxfp4", ...
  PayloadFormat payload = PayloadFormat::kUnquantized;
  Packing packing = Packing::kNone;
  ScaleGranularity granularity = ScaleGranularity::kNone;
  std::int64_t group_size = 0;  ///< kGroup: elements along K
  std::int64_t block_n = 0;     ///< kBlock: rows of a block
  std::int64_t block_k = 0;     ///< kBlock: columns of a block
  DType scale_dtype = DType::kF32;
  bool scale_divides = false;  ///< the stored scale is a reciprocal
  bool has_scale_2 = false;
  bool has_zero_points = false;
  bool act_order = false;
  ActivationScaling activation_scaling = ActivationScaling::kNone;
  std::int64_t activation_group_size = 0;

  bool is_quantized() const noexcept { return payload != PayloadFormat::kUnquantized; }
};

/// How a role is spelled in an ecosystem's files: the weight's module name + suffix.
struct RoleSuffix {
  ParamRole role = ParamRole::kWeight;
  std::string suffix;  ///< ".weight_scale_inv", "_blocks", ...
};

/// What a checkpoint announces: the scheme, its tensor suffixes, and which modules are left plain.
struct QuantAnnouncement {
  QuantScheme scheme;
  std::string ecosystem = "none";  ///< "none", "fp8", "mxfp4", "gptq", ...
  std::vector<RoleSuffix> suffixes;
  std::vector<std::string> ignored_modules;  ///< as written: names, prefixes, "re:" or wildcards
};

}  // namespace fusedmoe
