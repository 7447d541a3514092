// Qwen and its kin: softmax routing over `mlp.gate`, one tensor an expert.
//
// Source  public configs and the transformers classes Qwen2Moe, Qwen3Moe, Qwen3Next, Olmoe,
// FlexOlmo
#include "checkpoint/families/rows.h"

namespace fusedmoe {
namespace {

LayerRule sparse_steps() {
  return {.step = {{"decoder_sparse_step"}, 1}, .step_shift = 1, .dense_list = {"mlp_only_layers"}};
}

SharedRecipe gated_shared_expert() {
  return {.width = {{"shared_expert_intermediate_size"}, std::nullopt},
          .is_width_total = true,
          .width_defaults_to_expert = false,
          .layouts = {gate_up_down("mlp.shared_expert.")},
          .gate = "mlp.shared_expert_gate.weight"};
}

ExpertTensorPattern stacked_either_way(const std::string& module, ExpertShard shard) {
  return {.module = module,
          .weight_suffix = "",
          .shard = shard,
          .is_stacked = true,
          .is_transposed = true,
          .orientation_from_shape = true};
}

}  // namespace

std::vector<ModelFamily> qwen_families() {
  return {
      {.family = "qwen2_moe",
       .model_types = {"qwen2_moe"},
       .block = "mlp.",
       .layers = sparse_steps(),
       .router = {.weight = "mlp.gate.weight"},
       .routing = {.renormalize = {{"norm_topk_prob"}, false}},
       .experts = {gate_up_down("mlp.experts.{expert}.")},
       .shared = gated_shared_expert()},
      // Configs that leave norm_topk_prob out are read differently by different programs: required.
      {.family = "qwen3_moe",
       .model_types = {"qwen3_moe"},
       .block = "mlp.",
       .layers = sparse_steps(),
       .router = {.weight = "mlp.gate.weight"},
       .routing = {.renormalize = {{"norm_topk_prob"}, std::nullopt}},
       .experts = {gate_up_down("mlp.experts.{expert}.")}},
      {.family = "qwen3_next",
       .model_types = {"qwen3_next"},
       .block = "mlp.",
       .layers = sparse_steps(),
       .router = {.weight = "mlp.gate.weight"},
       .routing = {.renormalize = {{"norm_topk_prob"}, true}},
       .experts = {gate_up_down("mlp.experts.{expert}.")},
       .shared = gated_shared_expert()},
      // Published files hold the stacked tensors either way round; quantized exports one an expert.
      {.family = "qwen3_vl_moe",
       .model_types = {"qwen3_vl_moe", "qwen3_vl_moe_text"},
       .block = "mlp.",
       .layers = sparse_steps(),
       .router = {.weight = "mlp.gate.weight"},
       .routing = {.renormalize = {{"norm_topk_prob"}, true}},
       .experts = {{.tensors = {stacked_either_way("mlp.experts.gate_up_proj", ExpertShard::kW13),
                                stacked_either_way("mlp.experts.down_proj", ExpertShard::kW2)}},
                   gate_up_down("mlp.experts.{expert}.")}},
      {.family = "olmoe",
       .model_types = {"olmoe"},
       .block = "mlp.",
       .expert_width = {{"intermediate_size"}, std::nullopt},
       .router = {.weight = "mlp.gate.weight"},
       .routing = {.renormalize = {{"norm_topk_prob"}, false}},
       .experts = {gate_up_down("mlp.experts.{expert}.")}},
      {.family = "flex_olmo",
       .model_types = {"flex_olmo"},
       .block = "mlp.",
       .expert_width = {{"intermediate_size"}, std::nullopt},
       .router = {.weight = "mlp.gate.weight"},
       .routing = {.renormalize = {{"norm_topk_prob"}, false}},
       .experts = {gate_up_down("mlp.experts.{expert}.")}},
  };
}

}  // namespace fusedmoe
