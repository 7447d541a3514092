// DeepSeek and those who took over its router: a correction bias that only selects, groups, a
// factor.
//
// Source  DeepSeek-V2 and -V3 technical reports; public configs; the transformers classes
//         DeepseekV2, DeepseekV3, DeepseekV4, Glm4Moe, Dots1, LongcatFlash
#include "checkpoint/families/rows.h"

namespace fusedmoe {
namespace {

constexpr double kSumEpsilon = 1e-20;  // of all classes that normalize sigmoid scores

LayerRule dense_first() {
  return {.types = {"mlp_layer_types"},
          .moe_types = {"sparse", "moe"},
          .first = {{"first_k_dense_replace"}, 0},
          .step = {{"moe_layer_freq"}, 1}};
}

RouterNames biased_gate() {
  return {.weight = "mlp.gate.weight", .correction_bias = "mlp.gate.e_score_correction_bias"};
}

RoutingRecipe biased_groups(const std::string& default_method) {
  return {.scoring = {{"scoring_func"}, "sigmoid"},
          .method = {{"topk_method"}, default_method},
          .renormalize = {{"norm_topk_prob"}, true},
          .renormalize_value = {{}, kSumEpsilon},
          .scaling_factor = {{"routed_scaling_factor"}, std::nullopt},
          .num_expert_group = {{"n_group"}, 1},
          .topk_group = {{"topk_group"}, 1}};
}

SharedRecipe shared_experts() {
  return {.count = {{"n_shared_experts"}, 0}, .layouts = {gate_up_down("mlp.shared_experts.")}};
}

ModelFamily like_deepseek_v3(const std::string& name, std::vector<std::string> model_types) {
  return {.family = name,
          .model_types = std::move(model_types),
          .block = "mlp.",
          .num_experts = {{"n_routed_experts", "num_local_experts", "num_experts"}, std::nullopt},
          .layers = dense_first(),
          .router = biased_gate(),
          .routing = biased_groups("noaux_tc"),
          .experts = {gate_up_down("mlp.experts.{expert}.")},
          .shared = shared_experts()};
}

ModelFamily deepseek_v2() {
  ModelFamily row = like_deepseek_v3("deepseek_v2", {"deepseek_v2"});
  row.router = {.weight = "mlp.gate.weight"};
  row.routing.scoring = {{}, "softmax"};
  row.routing.method = {{"topk_method"}, "greedy"};
  row.routing.renormalize = {{}, false};  // the class never reads norm_topk_prob
  row.routing.renormalize_value = {{}, 0.0};
  return row;
}

ModelFamily deepseek_v4() {
  ModelFamily row = like_deepseek_v3("deepseek_v4", {"deepseek_v4"});
  row.block = "ffn.";
  row.layers = {.types = {"mlp_layer_types"},
                .moe_types = {"moe", "hash_moe"},
                .hash_types = {"hash_moe"},
                .num_hash_layers = {{"num_hash_layers"}, 0}};
  row.router = {.weight = "ffn.gate.weight",
                .correction_bias = "ffn.gate.bias",
                .hash_table = "ffn.gate.tid2eid"};
  row.routing.scoring = {{"scoring_func"}, "sqrtsoftplus"};
  row.activation.limit = {{"swiglu_limit"}, std::nullopt};
  row.experts = {w1_w3_w2("ffn.experts.{expert}.")};
  row.shared.layouts = {w1_w3_w2("ffn.shared_experts.")};
  return row;
}

ModelFamily longcat_flash() {
  return {.family = "longcat_flash",
          .model_types = {"longcat_flash"},
          .block = "mlp.",
          .num_layers = {{"num_layers"}, std::nullopt},  // num_hidden_layers counts half layers
          .num_experts = {{"n_routed_experts"}, std::nullopt},
          .num_identity_experts = {{"zero_expert_num"}, 0},
          .top_k = {{"moe_topk", "num_experts_per_tok"}, std::nullopt},
          .expert_width = {{"expert_ffn_hidden_size"}, std::nullopt},
          .router = {.weight = "mlp.router.classifier.weight",
                     .bias = "mlp.router.classifier.bias",
                     .has_bias = {{"router_bias"}, false},
                     .correction_bias = "mlp.router.e_score_correction_bias"},
          .routing = {.renormalize = {{}, false},
                      .scaling_factor = {{"routed_scaling_factor"}, std::nullopt}},
          .experts = {gate_up_down("mlp.experts.{expert}.")},
          .refused = {{"zero_expert_type", {"\"identity\""}, "zero experts of another kind"},
                      {"norm_topk_prob", {"false"}, "renormalized weights"}}};
}

}  // namespace

std::vector<ModelFamily> deepseek_families() {
  std::vector<ModelFamily> rows = {
      deepseek_v2(),
      like_deepseek_v3("deepseek_v3", {"deepseek_v3", "deepseek_v32", "kimi_k2"}),
      deepseek_v4(),
      like_deepseek_v3("glm4_moe",
                       {"glm4_moe", "glm4_moe_lite", "glm4v_moe", "glm4v_moe_text", "glm_moe_dsa"}),
      like_deepseek_v3("dots1", {"dots1"}),
      longcat_flash(),
  };
  return rows;
}

}  // namespace fusedmoe
