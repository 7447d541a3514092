// A model family as data: names of tensors, keys of the config, and the recipe of each part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusedmoe/model.h"

namespace fusedmoe {

/// A setting of config.json: the keys under which it is found (dotted paths, first wins) and the
/// value when none is there. No keys: the fallback is the value. No fallback: the key is required.
/// Integer settings may be lists with one entry a layer.
template <class T>
struct ConfigKey {
  std::vector<std::string> names{};
  std::optional<T> fallback{};
};
using IntKey = ConfigKey<std::int64_t>;
using NumberKey = ConfigKey<double>;
using FlagKey = ConfigKey<bool>;
using TextKey = ConfigKey<std::string>;

/// Which layers are MoE layers. The first of list, types and pattern that the config has decides;
/// without them a layer is one when
///   first <= layer <= last, (layer + step_shift) % step == offset, and it is not in dense_list.
struct LayerRule {
  FlagKey enabled{{}, true};
  std::vector<std::string> list{};        ///< layer numbers: an array, or text "3,4,5"
  std::vector<std::string> types{};       ///< an array with one word a layer
  std::vector<std::string> moe_types{};   ///< the words that mean MoE
  std::vector<std::string> hash_types{};  ///< those of them that mean a hash-routed layer
  std::vector<std::string> pattern{};     ///< a text with one letter a layer
  std::string moe_letter = "E";
  IntKey first{{}, 0};
  IntKey last{{}, -1};  ///< -1: the last layer
  IntKey step{{}, 1};   ///< 0 means 1
  std::int64_t step_shift = 0;
  IntKey offset{{}, 0};
  std::vector<std::string> dense_list{};  ///< layer numbers that are never MoE layers
  IntKey num_hash_layers{{}, 0};          ///< leading hash-routed layers, when no types are given
};

/// One way in which a family's experts are stored; module names are relative to the layer.
struct ExpertLayout {
  std::vector<ExpertTensorPattern> tensors{};
  /// The quantization under which files look like this; empty: plain files and every format that
  /// only adds companions to the same weights.
  std::string ecosystem{};
  /// The tensors' presence is the announcement (files whose config says nothing).
  bool is_implied = false;
  /// Suffix of the scales when the ecosystem's own does not fit.
  std::string scale_suffix{};
};

/// Tensor names of the router, relative to the layer; empty ones do not exist.
struct RouterNames {
  std::string weight{};
  std::string bias{};
  FlagKey has_bias{{}, true};
  std::string correction_bias{};
  FlagKey has_correction_bias{{}, true};
  std::string per_expert_scale{};
  std::string input_scale{};
  std::string hash_table{};
  bool normalizes_input = false;
  NumberKey norm_epsilon{{"rms_norm_eps"}, 1e-6};
};

/// How logits become experts and weights.
struct RoutingRecipe {
  TextKey scoring{{}, "softmax"};  ///< softmax, sigmoid, topk_softmax, ...
  /// "greedy", "group_limited_greedy" or "noaux_tc": overrules grouping and correction bias.
  TextKey method{{}, ""};
  FlagKey renormalize{{}, true};
  std::int64_t renormalize_from_top_k = 1;   ///< a smaller top_k is never renormalized
  std::string renormalize_form = "epsilon";  ///< "epsilon", "floor", "p_norm" (null turns it off)
  NumberKey renormalize_value{{}, 0.0};      ///< the epsilon, the floor or p
  NumberKey scaling_factor{{}, 1.0};
  IntKey num_expert_group{{}, 1};
  IntKey topk_group{{}, 1};
  NumberKey sparse_mixer_epsilon{{}, 0.01};
  NumberKey logit_soft_cap{{}, 0.0};
  bool weight_on_input = false;
};

struct ActivationRecipe {
  TextKey name{{"hidden_act"}, "silu"};
  bool is_gated = true;
  NumberKey alpha{{}, 1.702};
  NumberKey limit{{}, 0.0};
};

/// The dense expert beside the routed ones. No layouts: there is none.
struct SharedRecipe {
  FlagKey enabled{{}, true};
  IntKey count{{}, 1};  ///< 0: none
  IntKey width{{}, std::nullopt};
  bool is_width_total = false;           ///< width is that of all shared experts together
  bool width_defaults_to_expert = true;  ///< without width each is as wide as a routed expert
  std::vector<ExpertLayout> layouts{};
  std::string gate{};
};

/// A setting that changes the layer in a way that this version does not compute.
struct RefusedSetting {
  std::string key{};
  std::vector<std::string> accepted{};  ///< JSON values that are fine; null and absence always are
  std::string reason{};
};

/// One row of the family table. Nothing outside families/ knows a family's name.
struct ModelFamily {
  std::string family{};
  std::vector<std::string> model_types{};
  std::string layer = "model.layers.{layer}.";
  std::string block{};               ///< prefix of the MoE block, relative to the layer
  std::vector<std::string> owned{};  ///< prefixes that belong to the block alone; empty: block
  IntKey num_layers{{"num_hidden_layers", "n_layers", "num_layers"}, std::nullopt};
  IntKey hidden_size{{"hidden_size", "d_model"}, std::nullopt};
  IntKey num_experts{{"num_experts", "num_local_experts", "n_routed_experts"}, std::nullopt};
  std::int64_t min_num_experts = 1;  ///< fewer make the layer dense
  IntKey num_identity_experts{{}, 0};
  IntKey top_k{{"num_experts_per_tok"}, std::nullopt};
  IntKey expert_width{{"moe_intermediate_size"}, std::nullopt};
  FlagKey has_expert_bias{{}, false};
  LayerRule layers{};
  RouterNames router{};
  RoutingRecipe routing{};
  ActivationRecipe activation{};
  std::vector<ExpertLayout> experts{};  ///< alternatives; the one that the file has is taken
  SharedRecipe shared{};
  std::vector<RefusedSetting> refused{};
};

/// The built-in table, in the order of its files.
const std::vector<ModelFamily>& builtin_families();

/// Reads a family from JSON (docs/checkpoints.md); `file` is named in messages.
/// @throws Error(kInvalidArgument) naming an unknown key, a wrong type or what is missing.
ModelFamily parse_family(const std::string& text, const std::string& file);

/// All problems of a row, in words; empty when it is complete.
std::vector<std::string> validate(const ModelFamily& family);

/// The family's line for people.
FamilySummary summarize(const ModelFamily& family);

}  // namespace fusedmoe
