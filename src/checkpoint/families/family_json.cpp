// A family from a user's JSON file: the fields of ModelFamily under their own names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <set>
#include <type_traits>

#include "checkpoint/config.h"
#include "checkpoint/families/family.h"
#include "checkpoint/strict_json.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

using nlohmann::json;

/// Reads the members of one object; every member must be asked for.
class ObjectReader {
 public:
  ObjectReader(const json& object, std::string path, const std::string& file)
      : object_(object), path_(std::move(path)), file_(file) {
    if (!object.is_object()) fail("an object", object);
  }

  template <class T>
  void operator()(const char* name, T& field) {
    known_.insert(name);
    const auto found = object_.find(name);
    if (found != object_.end()) ObjectReader::read(*found, field, path_ + "." + name, file_);
  }

  void finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (known_.contains(key)) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("[checkpoint] family file {}: expected one of {}, got \"{}\" ({}), "
                              "remove or correct the key",
                              path_, fmt::join(known_, ", "), key, file_));
    }
  }

 private:
  [[noreturn]] void fail(std::string_view expected, const json& got) const {
    fail_at(path_, expected, got, file_);
  }
  [[noreturn]] static void fail_at(const std::string& path, std::string_view expected,
                                   const json& got, const std::string& file) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[checkpoint] family file {}: expected {}, got {} ({}), see "
                            "docs/checkpoints.md",
                            path, expected, brief(got), file));
  }

  static void read(const json& v, std::string& out, const std::string& path,
                   const std::string& file) {
    if (!v.is_string()) fail_at(path, "a text", v, file);
    out = v.get<std::string>();
  }
  static void read(const json& v, bool& out, const std::string& path, const std::string& file) {
    if (!v.is_boolean()) fail_at(path, "true or false", v, file);
    out = v.get<bool>();
  }
  static void read(const json& v, std::int64_t& out, const std::string& path,
                   const std::string& file) {
    if (!v.is_number_integer()) fail_at(path, "an integer", v, file);
    out = v.get<std::int64_t>();
  }
  static void read(const json& v, double& out, const std::string& path, const std::string& file) {
    if (!v.is_number()) fail_at(path, "a number", v, file);
    out = v.get<double>();
  }
  static void read(const json& v, ExpertShard& out, const std::string& path,
                   const std::string& file) {
    constexpr std::array<std::pair<const char*, ExpertShard>, 4> kShards = {
        {{"w1", ExpertShard::kW1},
         {"w3", ExpertShard::kW3},
         {"w2", ExpertShard::kW2},
         {"w13", ExpertShard::kW13}}};
    for (const auto& [name, shard] : kShards) {
      if (v == name) {
        out = shard;
        return;
      }
    }
    fail_at(path, "\"w1\", \"w3\", \"w2\" or \"w13\"", v, file);
  }
  /// A text or a list of texts are keys; a number or a truth value is the value itself.
  template <class T>
  static void read(const json& v, ConfigKey<T>& out, const std::string& path,
                   const std::string& file) {
    out = {};
    if (v.is_string()) {
      out.names = {v.get<std::string>()};
    } else if (v.is_array()) {
      read(v, out.names, path, file);
    } else if (v.is_object()) {
      ObjectReader object(v, path, file);
      object("keys", out.names);
      object("default", out.fallback);
      object.finish();
    } else {
      read(v, out.fallback, path, file);
    }
    if (out.names.empty() && !out.fallback) fail_at(path, "keys, a default or both", v, file);
  }
  template <class T>
  static void read(const json& v, std::optional<T>& out, const std::string& path,
                   const std::string& file) {
    read(v, out.emplace(), path, file);
  }
  template <class T>
  static void read(const json& v, std::vector<T>& out, const std::string& path,
                   const std::string& file) {
    if (!v.is_array()) fail_at(path, "a list", v, file);
    out.clear();
    for (const json& entry : v) {
      const std::string place = fmt::format("{}[{}]", path, out.size());
      read(entry, out.emplace_back(), place, file);
    }
  }
  template <class T>
  requires std::is_class_v<T>
  static void read(const json& v, T& out, const std::string& path, const std::string& file) {
    ObjectReader object(v, path, file);
    fields(object, out);
    object.finish();
  }

  template <class Visit>
  static void fields(Visit& visit, ExpertTensorPattern& pattern) {
    visit("module", pattern.module);
    visit("weight_suffix", pattern.weight_suffix);
    visit("bias_suffix", pattern.bias_suffix);
    visit("shard", pattern.shard);
    visit("is_stacked", pattern.is_stacked);
    visit("is_flattened", pattern.is_flattened);
    visit("is_transposed", pattern.is_transposed);
    visit("is_interleaved", pattern.is_interleaved);
    visit("is_up_first", pattern.is_up_first);
    visit("orientation_from_shape", pattern.orientation_from_shape);
  }
  template <class Visit>
  static void fields(Visit& visit, ExpertLayout& layout) {
    visit("tensors", layout.tensors);
    visit("ecosystem", layout.ecosystem);
    visit("is_implied", layout.is_implied);
    visit("scale_suffix", layout.scale_suffix);
  }
  template <class Visit>
  static void fields(Visit& visit, LayerRule& rule) {
    visit("enabled", rule.enabled);
    visit("list", rule.list);
    visit("types", rule.types);
    visit("moe_types", rule.moe_types);
    visit("hash_types", rule.hash_types);
    visit("pattern", rule.pattern);
    visit("moe_letter", rule.moe_letter);
    visit("first", rule.first);
    visit("last", rule.last);
    visit("step", rule.step);
    visit("step_shift", rule.step_shift);
    visit("offset", rule.offset);
    visit("dense_list", rule.dense_list);
    visit("num_hash_layers", rule.num_hash_layers);
  }
  template <class Visit>
  static void fields(Visit& visit, RouterNames& router) {
    visit("weight", router.weight);
    visit("bias", router.bias);
    visit("has_bias", router.has_bias);
    visit("correction_bias", router.correction_bias);
    visit("has_correction_bias", router.has_correction_bias);
    visit("per_expert_scale", router.per_expert_scale);
    visit("input_scale", router.input_scale);
    visit("hash_table", router.hash_table);
    visit("normalizes_input", router.normalizes_input);
    visit("norm_epsilon", router.norm_epsilon);
  }
  template <class Visit>
  static void fields(Visit& visit, RoutingRecipe& routing) {
    visit("scoring", routing.scoring);
    visit("method", routing.method);
    visit("renormalize", routing.renormalize);
    visit("renormalize_from_top_k", routing.renormalize_from_top_k);
    visit("renormalize_form", routing.renormalize_form);
    visit("renormalize_value", routing.renormalize_value);
    visit("scaling_factor", routing.scaling_factor);
    visit("num_expert_group", routing.num_expert_group);
    visit("topk_group", routing.topk_group);
    visit("sparse_mixer_epsilon", routing.sparse_mixer_epsilon);
    visit("logit_soft_cap", routing.logit_soft_cap);
    visit("weight_on_input", routing.weight_on_input);
  }
  template <class Visit>
  static void fields(Visit& visit, ActivationRecipe& activation) {
    visit("name", activation.name);
    visit("is_gated", activation.is_gated);
    visit("alpha", activation.alpha);
    visit("limit", activation.limit);
  }
  template <class Visit>
  static void fields(Visit& visit, SharedRecipe& shared) {
    visit("enabled", shared.enabled);
    visit("count", shared.count);
    visit("width", shared.width);
    visit("is_width_total", shared.is_width_total);
    visit("width_defaults_to_expert", shared.width_defaults_to_expert);
    visit("layouts", shared.layouts);
    visit("gate", shared.gate);
  }
  template <class Visit>
  static void fields(Visit& visit, RefusedSetting& refused) {
    visit("key", refused.key);
    visit("accepted", refused.accepted);
    visit("reason", refused.reason);
  }
  template <class Visit>
  static void fields(Visit& visit, ModelFamily& family) {
    visit("family", family.family);
    visit("model_types", family.model_types);
    visit("layer", family.layer);
    visit("block", family.block);
    visit("owned", family.owned);
    visit("num_layers", family.num_layers);
    visit("hidden_size", family.hidden_size);
    visit("num_experts", family.num_experts);
    visit("min_num_experts", family.min_num_experts);
    visit("num_identity_experts", family.num_identity_experts);
    visit("top_k", family.top_k);
    visit("expert_width", family.expert_width);
    visit("has_expert_bias", family.has_expert_bias);
    visit("layers", family.layers);
    visit("router", family.router);
    visit("routing", family.routing);
    visit("activation", family.activation);
    visit("experts", family.experts);
    visit("shared", family.shared);
    visit("refused", family.refused);
  }

 public:
  static ModelFamily family(const json& object, const std::string& file) {
    ModelFamily family;
    read(object, family, "root", file);
    return family;
  }

 private:
  const json& object_;
  std::string path_;
  const std::string& file_;
  std::set<std::string> known_;
};

}  // namespace

ModelFamily parse_family(const std::string& text, const std::string& file) {
  ModelFamily family =
      ObjectReader::family(parse_strict(text, kConfigJsonLimits, "file " + file), file);
  const auto problems = validate(family);
  if (problems.empty()) return family;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("[checkpoint] family file: expected a complete family, got {} ({}), see "
                          "docs/checkpoints.md",
                          fmt::join(problems, "; "), file));
}

}  // namespace fusedmoe
