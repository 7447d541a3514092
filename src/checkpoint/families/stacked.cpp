// Families that keep all experts of a projection in one tensor.
//
// Source  public configs and the transformers classes Llama4, GraniteMoe, GraniteMoeShared, Dbrx,
//         Gemma4; the model code that StepFun publishes with Step3
#include "checkpoint/families/rows.h"

namespace fusedmoe {
namespace {

ExpertTensorPattern stacked(const std::string& module, ExpertShard shard,
                            const std::string& weight_suffix = "") {
  return {.module = module, .weight_suffix = weight_suffix, .shard = shard, .is_stacked = true};
}

ExpertTensorPattern transposed(ExpertTensorPattern pattern) {
  pattern.is_transposed = true;
  return pattern;
}

ExpertTensorPattern flattened(ExpertTensorPattern pattern) {
  pattern.is_flattened = true;
  return pattern;
}

/// Quantised exports of Llama-4 hold one tensor an expert instead.
ModelFamily llama4() {
  return {
      .family = "llama4",
      .model_types = {"llama4", "llama4_text"},
      .block = "feed_forward.",
      .num_experts = {{"num_local_experts", "num_experts"}, std::nullopt},
      .expert_width = {{"intermediate_size"}, std::nullopt},
      .layers = {.list = {"moe_layers"},
                 .step = {{"interleave_moe_layer_step"}, 1},
                 .step_shift = 1},
      .router = {.weight = "feed_forward.router.weight"},
      .routing = {.scoring = {{}, "topk_sigmoid"},
                  .renormalize = {{}, false},
                  .weight_on_input = true},
      .experts =
          {{.tensors = {transposed(stacked("feed_forward.experts.gate_up_proj", ExpertShard::kW13)),
                        transposed(stacked("feed_forward.experts.down_proj", ExpertShard::kW2))}},
           gate_up_down("feed_forward.experts.{expert}.")},
      .shared = {.layouts = {gate_up_down("feed_forward.shared_expert.")}}};
}

ModelFamily granitemoe() {
  return {
      .family = "granitemoe",
      .model_types = {"granitemoe"},
      .block = "block_sparse_moe.",
      .num_experts = {{"num_local_experts", "num_experts"}, std::nullopt},
      .expert_width = {{"intermediate_size"}, std::nullopt},
      .router = {.weight = "block_sparse_moe.router.layer.weight"},
      .routing = {.scoring = {{}, "topk_softmax"}, .renormalize = {{}, false}},
      .experts = {
          {.tensors = {stacked("block_sparse_moe.input_linear", ExpertShard::kW13, ".weight"),
                       stacked("block_sparse_moe.output_linear", ExpertShard::kW2, ".weight")}}}};
}

ModelFamily granitemoe_shared() {
  ModelFamily row = granitemoe();
  row.family = "granitemoeshared";
  row.model_types = {"granitemoeshared", "granitemoehybrid"};
  row.owned = {"block_sparse_moe.", "shared_mlp."};
  row.shared = {
      .width = {{"shared_intermediate_size"}, 0},
      .is_width_total = true,
      .layouts = {
          {.tensors = {{.module = "shared_mlp.input_linear", .shard = ExpertShard::kW13},
                       {.module = "shared_mlp.output_linear", .shard = ExpertShard::kW2}}}}};
  return row;
}

ModelFamily dbrx() {
  const std::string base = "ffn.experts.mlp.";
  return {
      .family = "dbrx",
      .model_types = {"dbrx"},
      .layer = "transformer.blocks.{layer}.",
      .block = "ffn.",
      .num_experts = {{"ffn_config.moe_num_experts"}, std::nullopt},
      .top_k = {{"ffn_config.moe_top_k"}, std::nullopt},
      .expert_width = {{"ffn_config.ffn_hidden_size"}, std::nullopt},
      .router = {.weight = "ffn.router.layer.weight"},
      .routing = {.renormalize_form = "p_norm",
                  .renormalize_value = {{"ffn_config.moe_normalize_expert_weights"}, 1.0}},
      .activation = {.name = {{"ffn_config.ffn_act_fn.name"}, "silu"}},
      .experts = {{.tensors = {flattened(stacked(base + "w1", ExpertShard::kW1)),
                               flattened(stacked(base + "v1", ExpertShard::kW3)),
                               transposed(flattened(stacked(base + "w2", ExpertShard::kW2)))}}}};
}

/// The dense MLP that runs in parallel is no part of the block.
ModelFamily gemma4() {
  return {.family = "gemma4",
          .model_types = {"gemma4", "gemma4_text"},
          .owned = {"router.", "experts."},
          .top_k = {{"top_k_experts", "num_experts_per_tok"}, std::nullopt},
          .layers = {.enabled = {{"enable_moe_block"}, false}},
          .router = {.weight = "router.proj.weight",
                     .per_expert_scale = "router.per_expert_scale",
                     .input_scale = "router.scale",
                     .normalizes_input = true},
          .activation = {.name = {{"hidden_activation", "hidden_act"}, "gelu_pytorch_tanh"}},
          .experts = {{.tensors = {stacked("experts.gate_up_proj", ExpertShard::kW13),
                                   stacked("experts.down_proj", ExpertShard::kW2)}}}};
}

ModelFamily step3() {
  return {.family = "step3",
          .model_types = {"step3_text", "step3_vl", "step3"},
          .block = "moe.",
          .owned = {"moe.", "share_expert."},
          .num_experts = {{"moe_num_experts"}, std::nullopt},
          .top_k = {{"moe_top_k"}, std::nullopt},
          .layers = {.list = {"moe_layers_enum"}, .first = {{}, 1}},
          .router = {.weight = "moe.gate.weight"},
          .routing = {.renormalize = {{"norm_expert_weight"}, true}},
          .experts = {{.tensors = {stacked("moe.gate_proj", ExpertShard::kW1, ".weight"),
                                   stacked("moe.up_proj", ExpertShard::kW3, ".weight"),
                                   stacked("moe.down_proj", ExpertShard::kW2, ".weight")}}},
          .shared = {.width = {{"share_expert_dim"}, std::nullopt},
                     .is_width_total = true,
                     .layouts = {gate_up_down("share_expert.")}}};
}

}  // namespace

std::vector<ModelFamily> stacked_families() {
  return {llama4(), granitemoe(), granitemoe_shared(), dbrx(), gemma4(), step3()};
}

}  // namespace fusedmoe
