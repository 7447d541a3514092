// Families with one tensor an expert under `mlp.`, a shared expert, and a router of their own.
//
// Source  public configs and the transformers classes Ernie4_5_Moe, HunYuanMoEV1, HYV3, Afmoe; the
//         model code that inclusionAI publishes with Bailing and Ling
#include "checkpoint/families/rows.h"

namespace fusedmoe {
namespace {

constexpr double kSumEpsilon = 1e-20;

ModelFamily ernie4_5_moe() {
  return {.family = "ernie4_5_moe",
          .model_types = {"ernie4_5_moe"},
          .block = "mlp.",
          .num_experts = {{"moe_num_experts", "num_experts"}, std::nullopt},
          .top_k = {{"moe_k", "num_experts_per_tok"}, std::nullopt},
          .has_expert_bias = {{"use_bias"}, false},
          .layers = {.first = {{"moe_layer_start_index"}, 1},
                     .last = {{"moe_layer_end_index"}, -1},
                     .step = {{"moe_layer_interval"}, 1},
                     .step_shift = 1},
          .router = {.weight = "mlp.gate.weight",
                     .correction_bias = "mlp.moe_statics.e_score_correction_bias",
                     .has_correction_bias = {{"moe_use_aux_free"}, true}},
          .routing = {.renormalize_form = "floor", .renormalize_value = {{"moe_norm_min"}, 1e-12}},
          .experts = {gate_up_down("mlp.experts.{expert}.")},
          .shared = {.count = {{"moe_num_shared_experts"}, 0},
                     .layouts = {gate_up_down("mlp.shared_experts.")}}};
}

/// Some publications keep the shared expert's gate and up in one tensor, up first.
ModelFamily hunyuan_v1_moe() {
  const ExpertLayout joined = {
      .tensors = {{.module = "mlp.shared_mlp.gate_and_up_proj",
                   .shard = ExpertShard::kW13,
                   .is_up_first = true},
                  {.module = "mlp.shared_mlp.down_proj", .shard = ExpertShard::kW2}}};
  return {.family = "hunyuan_v1_moe",
          .model_types = {"hunyuan_v1_moe", "hunyuan"},
          .block = "mlp.",
          .min_num_experts = 2,
          .top_k = {{"moe_topk", "num_experts_per_tok"}, std::nullopt},
          .expert_width = {{"moe_intermediate_size", "intermediate_size"}, std::nullopt},
          .layers = {.first = {{"moe_layer_num_skipped"}, 0}},
          .router = {.weight = "mlp.gate.wg.weight"},
          .routing = {.renormalize_from_top_k = 2},
          .experts = {gate_up_down("mlp.experts.{expert}.")},
          .shared = {.enabled = {{"use_mixed_mlp_moe"}, true},
                     .count = {{"num_shared_expert"}, 1},
                     .layouts = {gate_up_down("mlp.shared_mlp."), joined}}};
}

ModelFamily hy_v3() {
  return {.family = "hy_v3",
          .model_types = {"hy_v3"},
          .block = "mlp.",
          .layers = {.types = {"mlp_layer_types"},
                     .moe_types = {"sparse", "moe"},
                     .first = {{"first_k_dense_replace"}, 1}},
          .router = {.weight = "mlp.router.gate.weight", .correction_bias = "mlp.expert_bias"},
          .routing = {.scoring = {{}, "sigmoid"},
                      .renormalize_value = {{}, kSumEpsilon},
                      .scaling_factor = {{"router_scaling_factor"}, std::nullopt}},
          .experts = {gate_up_down("mlp.experts.{expert}.")},
          .shared = {.count = {{"num_shared_experts"}, 1},
                     .layouts = {gate_up_down("mlp.shared_mlp.")}}};
}

ModelFamily afmoe() {
  return {.family = "afmoe",
          .model_types = {"afmoe"},
          .block = "mlp.",
          .layers = {.first = {{"num_dense_layers"}, 1}},
          .router = {.weight = "mlp.router.gate.weight", .correction_bias = "mlp.expert_bias"},
          .routing = {.scoring = {{"score_func"}, "sigmoid"},
                      .renormalize = {{"route_norm"}, true},
                      .renormalize_value = {{}, kSumEpsilon},
                      .scaling_factor = {{"route_scale"}, 1.0},
                      .num_expert_group = {{"n_group"}, 1},
                      .topk_group = {{"topk_group"}, 1}},
          .experts = {gate_up_down("mlp.experts.{expert}.")},
          .shared = {.count = {{"num_shared_experts"}, 1},
                     .layouts = {gate_up_down("mlp.shared_experts.")}}};
}

ModelFamily bailing_moe() {
  return {.family = "bailing_moe",
          .model_types = {"bailing_moe", "bailing_moe_v2"},
          .block = "mlp.",
          .layers = {.first = {{"first_k_dense_replace"}, 0}},
          .router = {.weight = "mlp.gate.weight",
                     .correction_bias = "mlp.gate.expert_bias",
                     .has_correction_bias = {{"moe_router_enable_expert_bias"}, false}},
          .routing = {.scoring = {{"score_function"}, "softmax"},
                      .renormalize = {{"norm_topk_prob"}, true},
                      .renormalize_value = {{}, kSumEpsilon},
                      .scaling_factor = {{"routed_scaling_factor"}, 1.0},
                      .num_expert_group = {{"n_group"}, 1},
                      .topk_group = {{"topk_group"}, 1}},
          .experts = {gate_up_down("mlp.experts.{expert}.")},
          .shared = {.count = {{"num_shared_experts"}, 0},
                     .width = {{"moe_shared_expert_intermediate_size"}, std::nullopt},
                     .layouts = {gate_up_down("mlp.shared_experts.")}}};
}

}  // namespace

std::vector<ModelFamily> shared_mlp_families() {
  return {ernie4_5_moe(), hunyuan_v1_moe(), hy_v3(), afmoe(), bailing_moe()};
}

}  // namespace fusedmoe
