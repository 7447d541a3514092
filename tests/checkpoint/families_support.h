// Facts for describe(): from golden folders, or made up from names.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/describe.h"
#include "fusedmoe/error.h"

namespace fusedmoe::test {

using Json = nlohmann::json;

/// Owns what CheckpointFacts views.
struct OwnedFacts {
  Json config;
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> side_files;

  ModelDescription describe(const DescribeOptions& options = {}) {
    std::ranges::sort(tensors, {}, &TensorInfo::name);
    return fusedmoe::describe({.config_json = config.dump(),
                               .config_file = "config.json",
                               .side_file =
                                   [this](std::string_view name) {
                                     const auto found = side_files.find(std::string(name));
                                     return found == side_files.end() ? "" : found->second;
                                   },
                               .tensors = tensors},
                              options);
  }

  void add(const std::string& name, Shape shape = {}, DType dtype = DType::kBF16) {
    TensorInfo info;
    info.name = name;
    info.dtype = dtype;
    info.shape = shape;
    tensors.push_back(std::move(info));
  }

  /// Adds `pattern` once, or for each expert when it contains "{expert}".
  void add_experts(const std::string& pattern, int num_experts, DType dtype = DType::kBF16) {
    for (int e = 0; e < num_experts; ++e) {
      const std::string name = with_number(pattern, "{expert}", e);
      add(name, {}, dtype);
      if (name == pattern) return;
    }
  }
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The header of a safetensors file that is known to be sound.
inline Json read_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string text(length, ' ');
  file.read(text.data(), static_cast<std::streamsize>(length));
  return Json::parse(text);
}

inline std::string golden_path(const std::string& folder) {
  return std::string(FUSEDMOE_TEST_DATA) + "/golden/" + folder;
}

inline OwnedFacts golden_facts(const std::string& folder) {
  OwnedFacts facts;
  facts.config = Json::parse(read_text(golden_path(folder) + "/config.json"));
  const Json header = read_header(golden_path(folder) + "/model.safetensors");
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const auto dims = tensor["shape"].get<std::vector<std::int64_t>>();
    facts.add(name, Shape(dims), *dtype_from_name(tensor["dtype"].get<std::string>()));
  }
  return facts;
}

inline void claim(const std::vector<ExpertTensorPattern>& tensors, const QuantAnnouncement& quant,
                  std::int64_t num_experts, std::multiset<std::string>& names) {
  for (const ExpertTensorPattern& pattern : tensors) {
    for (std::int64_t e = 0; e < (pattern.is_stacked ? 1 : num_experts); ++e) {
      const std::string module = with_number(pattern.module, "{expert}", e);
      names.insert(module + pattern.weight_suffix);
      if (!pattern.bias_suffix.empty()) names.insert(module + pattern.bias_suffix);
      for (const RoleSuffix& role : quant.suffixes) {
        if (role.role != ParamRole::kWeight) names.insert(module + role.suffix);
      }
    }
  }
}

/// Every tensor name that a description asks for.
inline std::multiset<std::string> claimed_names(const MoeLayerDescription& layer) {
  std::multiset<std::string> names;
  const RouterDescription& router = layer.router;
  for (const std::string* name :
       {&router.weight, &router.bias, &router.correction_bias, &router.per_expert_scale,
        &router.input_scale, &router.hash_table, &layer.shared.gate_weight}) {
    if (!name->empty()) names.insert(*name);
  }
  claim(layer.experts, layer.quant, layer.num_experts, names);
  claim(layer.shared.tensors, layer.shared.quant, 1, names);
  return names;
}

/// Every tensor that the description says belongs to the layer.
inline std::multiset<std::string> owned_names(const MoeLayerDescription& layer,
                                              const std::vector<TensorInfo>& tensors) {
  std::multiset<std::string> names;
  for (const TensorInfo& tensor : tensors) {
    for (const std::string& prefix : layer.owned_prefixes) {
      if (tensor.name.starts_with(prefix)) names.insert(tensor.name);
    }
  }
  return names;
}

inline Json to_json(const QuantAnnouncement& quant) {
  Json json = {quant.ecosystem,      quant.scheme.name,       quant.scheme.block_n,
               quant.scheme.block_k, quant.scheme.group_size, dtype_name(quant.scheme.scale_dtype)};
  for (const RoleSuffix& role : quant.suffixes) json.push_back(role.suffix);
  return json;
}

inline Json to_json(const std::vector<ExpertTensorPattern>& tensors) {
  Json json = Json::array();
  for (const ExpertTensorPattern& p : tensors) {
    json.push_back({p.module, p.weight_suffix, p.bias_suffix, p.shard, p.is_stacked, p.is_flattened,
                    p.is_transposed, p.is_interleaved, p.is_up_first, p.orientation_from_shape});
  }
  return json;
}

/// Everything a description says, for comparing two of them.
inline Json to_json(const MoeLayerDescription& layer) {
  const TopKConfig& r = layer.routing;
  const RouterDescription& n = layer.router;
  return {
      {"index", layer.layer_index},
      {"prefix", layer.prefix},
      {"owned", layer.owned_prefixes},
      {"sizes",
       {layer.hidden_size, layer.intermediate_size, layer.num_experts, layer.num_identity_experts}},
      {"activation",
       {layer.activation.kind, layer.activation.is_gated, layer.activation.alpha,
        layer.activation.limit}},
      {"flags", {layer.has_expert_bias, layer.apply_router_weight_on_input}},
      {"routing",
       {r.num_experts, r.top_k, r.scoring, r.renormalize, r.renormalize_form, r.renormalize_epsilon,
        r.renormalize_p, r.routed_scaling_factor, r.num_expert_group, r.topk_group,
        r.sparse_mixer_epsilon, r.logit_soft_cap}},
      {"router",
       {n.weight, n.bias, n.correction_bias, n.per_expert_scale, n.input_scale, n.hash_table,
        n.normalizes_input, n.norm_epsilon}},
      {"experts", to_json(layer.experts)},
      {"shared",
       {layer.shared.intermediate_size, to_json(layer.shared.tensors), layer.shared.gate_weight,
        to_json(layer.shared.quant), dtype_name(layer.shared.weight_dtype)}},
      {"quant", to_json(layer.quant)},
      {"dtype", dtype_name(layer.weight_dtype)},
  };
}

inline Json to_json(const ModelDescription& model) {
  Json layers = Json::array();
  for (const MoeLayerDescription& layer : model.layers) layers.push_back(to_json(layer));
  return {{"layers", layers},
          {"num_hidden_layers", model.num_hidden_layers},
          {"dense", model.dense_layers},
          {"warnings", model.warnings}};
}

/// The error of a call, "" when it succeeds.
template <class Call>
std::string error_of(Call&& call, ErrorCode expected) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == expected
               ? error.what()
               : "wrong code " + std::string(error_code_name(error.code())) + ": " + error.what();
  }
  return "";
}

}  // namespace fusedmoe::test
