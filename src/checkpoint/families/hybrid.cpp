// Models whose layers mix attention with state-space or convolution blocks.
//
// Source  public configs and the transformers classes Jamba, Lfm2Moe, NemotronH
#include "checkpoint/families/rows.h"

namespace fusedmoe {
namespace {

ModelFamily jamba() {
  return {.family = "jamba",
          .model_types = {"jamba"},
          .block = "feed_forward.",
          .min_num_experts = 2,
          .expert_width = {{"intermediate_size"}, std::nullopt},
          .layers = {.step = {{"expert_layer_period"}, 2}, .offset = {{"expert_layer_offset"}, 1}},
          .router = {.weight = "feed_forward.router.weight"},
          .routing = {.renormalize = {{}, false}},
          .experts = {gate_up_down("feed_forward.experts.{expert}.")}};
}

ModelFamily lfm2_moe() {
  return {.family = "lfm2_moe",
          .model_types = {"lfm2_moe"},
          .block = "feed_forward.",
          .layers = {.first = {{"num_dense_layers"}, 2}},
          .router = {.weight = "feed_forward.gate.weight",
                     .correction_bias = "feed_forward.expert_bias",
                     .has_correction_bias = {{"use_expert_bias"}, true}},
          .routing = {.scoring = {{}, "sigmoid"},
                      .renormalize = {{"norm_topk_prob"}, true},
                      .renormalize_value = {{}, 1e-6},
                      .scaling_factor = {{"routed_scaling_factor"}, 1.0}},
          .experts = {w1_w3_w2("feed_forward.experts.{expert}.")}};
}

ExpertLayout up_down(const std::string& base) {
  return {.tensors = {{.module = base + "up_proj", .shard = ExpertShard::kW1},
                      {.module = base + "down_proj", .shard = ExpertShard::kW2}}};
}

/// Layers are numbered over all kinds of block; MoE is one of them.
ModelFamily nemotron_h() {
  return {.family = "nemotron_h",
          .model_types = {"nemotron_h"},
          .layer = "backbone.layers.{layer}.",
          .block = "mixer.",
          .num_experts = {{"n_routed_experts", "num_local_experts"}, std::nullopt},
          .layers = {.types = {"layers_block_type"},
                     .moe_types = {"moe"},
                     .pattern = {"hybrid_override_pattern"},
                     .moe_letter = "E"},
          .router = {.weight = "mixer.gate.weight",
                     .correction_bias = "mixer.gate.e_score_correction_bias"},
          .routing = {.scoring = {{}, "sigmoid"},
                      .renormalize = {{"norm_topk_prob"}, true},
                      .renormalize_value = {{}, 1e-20},
                      .scaling_factor = {{"routed_scaling_factor"}, 1.0},
                      .num_expert_group = {{"n_group"}, 1},
                      .topk_group = {{"topk_group"}, 1}},
          .activation = {.name = {{"mlp_hidden_act"}, "relu2"}, .is_gated = false},
          .experts = {up_down("mixer.experts.{expert}.")},
          .shared = {.count = {{"n_shared_experts"}, 0},
                     .width = {{"moe_shared_expert_intermediate_size"}, std::nullopt},
                     .is_width_total = true,
                     .width_defaults_to_expert = false,
                     .layouts = {up_down("mixer.shared_experts.")}},
          .refused = {{"moe_latent_size", {}, "experts that work in a latent space"},
                      {"mlp_bias", {"false"}, "biases in experts"}}};
}

}  // namespace

std::vector<ModelFamily> hybrid_families() { return {jamba(), lfm2_moe(), nemotron_h()}; }

}  // namespace fusedmoe
