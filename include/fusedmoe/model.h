// What a checkpoint's MoE layers are: the result of reading config.json through the family table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fusedmoe/activation.h"
#include "fusedmoe/checkpoint.h"
#include "fusedmoe/quant.h"
#include "fusedmoe/routing.h"

namespace fusedmoe {

/// The projection(s) that a checkpoint tensor holds. w1 = gate (or the only input projection of a
/// non-gated layer), w3 = up, w2 = down, w13 = gate and up in one tensor.
enum class ExpertShard { kW1, kW3, kW2, kW13 };

/// One kind of expert tensor: where it is and how it is laid out.
struct ExpertTensorPattern {
  /// Module path, "{expert}" standing for the expert number when there is one tensor per expert.
  std::string module{};
  std::string weight_suffix = ".weight";  ///< "" when the module name is the tensor's name
  std::string bias_suffix{};              ///< "" when there is no bias
  ExpertShard shard = ExpertShard::kW1;
  bool is_stacked = false;      ///< all experts in one tensor, [E, N, K] (or flattened)
  bool is_flattened = false;    ///< stacked as [E * rows, cols]
  bool is_transposed = false;   ///< stored [K, N]
  bool is_interleaved = false;  ///< kW13: rows gate0, up0, gate1, ...; else gate half, up half
  bool is_up_first = false;     ///< kW13, not interleaved: first half is up
  /// kW13 stored either way round (Qwen3-VL-MoE): decide from the shapes of w13 and w2 together.
  bool orientation_from_shape = false;
};

/// Tensors that make the router; empty names are absent.
struct RouterDescription {
  std::string weight;            ///< [E, H]
  std::string bias;              ///< [E]
  std::string correction_bias;   ///< [E] or [1, E]
  std::string per_expert_scale;  ///< [E]
  std::string input_scale;       ///< [H]: Gemma-4, multiplies the normalized input
  std::string hash_table;        ///< [vocab, k]: DeepSeek-V4 hash layers
  /// Gemma-4: the router reads rmsnorm(x) * input_scale * hidden_size^-0.5.
  bool normalizes_input = false;
  float norm_epsilon = 1e-6F;
};

/// A dense expert that every token passes; `intermediate_size == 0` means there is none.
struct SharedExpertDescription {
  std::int64_t intermediate_size = 0;  ///< of all shared experts together
  std::vector<ExpertTensorPattern> tensors;
  std::string gate_weight;  ///< [1, H]; the output is multiplied by sigmoid(x . gate); or empty
  ActivationConfig activation;
  QuantAnnouncement quant;
  DType weight_dtype = DType::kBF16;
};

/// Everything needed to load and run one MoE layer. No name of a model below this line.
struct MoeLayerDescription {
  int layer_index = 0;
  std::string prefix;                       ///< "model.layers.3.mlp."
  std::vector<std::string> owned_prefixes;  ///< every tensor below these must be used by the layer
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;     ///< of one routed expert, whole model
  std::int64_t num_experts = 0;           ///< routed experts that have weights
  std::int64_t num_identity_experts = 0;  ///< ids num_experts ... return their input
  ActivationConfig activation;
  bool has_expert_bias = false;
  bool apply_router_weight_on_input = false;
  TopKConfig routing;  ///< bias and scale vectors are filled when loading
  RouterDescription router;
  std::vector<ExpertTensorPattern> experts;
  SharedExpertDescription shared;
  QuantAnnouncement quant;  ///< of the routed experts
  /// Element type in which the experts are packed: that of the file, or, for formats that this
  /// version multiplies dequantized, the smallest type that holds the products exactly enough.
  DType weight_dtype = DType::kBF16;
};

struct ModelDescription {
  std::string family;      ///< row of the family table: "qwen3_moe"
  std::string model_type;  ///< as the config spells it
  int num_hidden_layers = 0;
  std::vector<MoeLayerDescription> layers;  ///< MoE layers only, ascending
  std::vector<int> dense_layers;
  std::vector<std::string> warnings;  ///< unknown quantization keys, skipped MTP layers, ...
};

struct DescribeOptions {
  /// A JSON file that describes a family (docs/checkpoints.md); empty: use the built-in table.
  std::filesystem::path family_file{};
  /// Use this family row instead of the one that model_type selects.
  std::string family{};
};

/// Reads config.json and the tensor index.
/// @throws Error(kUnsupported) for an unknown model_type, naming the nearest supported ones;
///         Error(kCorruptData) for a config whose numbers are missing, non-integer or out of range.
ModelDescription describe_model(const Checkpoint& checkpoint, const DescribeOptions& options = {});

/// One line of the family table, for docs and `fusedmoe inspect --families`.
struct FamilySummary {
  std::string family;
  std::vector<std::string> model_types;
  std::string router;         ///< "softmax, renormalized", ...
  std::string expert_layout;  ///< "per expert gate/up/down", ...
  std::string activation;
  std::string shared_experts;
};
std::vector<FamilySummary> list_families();

}  // namespace fusedmoe
