// Mixtral and its kin: a block `block_sparse_moe` with experts w1 (gate), w3 (up), w2 (down).
//
// Source  public configs and the transformers classes Mixtral, Phimoe, MiniMax, MiniMaxM2; the
// model
//         code that Snowflake (Arctic) and xAI (Grok-1) publish with their weights
#include "checkpoint/families/rows.h"

namespace fusedmoe {
namespace {

ModelFamily like_mixtral(const std::string& name, std::vector<std::string> model_types) {
  return {.family = name,
          .model_types = std::move(model_types),
          .block = "block_sparse_moe.",
          .num_experts = {{"num_local_experts", "num_experts"}, std::nullopt},
          .expert_width = {{"intermediate_size"}, std::nullopt},
          .router = {.weight = "block_sparse_moe.gate.weight"},
          .experts = {w1_w3_w2("block_sparse_moe.experts.{expert}.")}};
}

ModelFamily phimoe() {
  ModelFamily row = like_mixtral("phimoe", {"phimoe"});
  row.routing.scoring = {{}, "sparse_mixer"};
  row.routing.renormalize = {{}, false};
  row.routing.sparse_mixer_epsilon = {{"router_jitter_noise"}, 0.01};
  return row;
}

ModelFamily minimax() {
  ModelFamily row = like_mixtral("minimax", {"minimax", "minimax_text_01", "minimax_m1"});
  row.refused = {{"shared_intermediate_size",
                  {"0", "[0]"},
                  "a shared expert blended in by a learned coefficient"}};
  return row;
}

ModelFamily minimax_m2() {
  ModelFamily row = like_mixtral("minimax_m2", {"minimax_m2"});
  row.router.correction_bias = "block_sparse_moe.e_score_correction_bias";
  row.router.has_correction_bias = {{"use_routing_bias"}, true};
  row.routing.scoring = {{"scoring_func"}, "sigmoid"};
  row.refused = {{"shared_intermediate_size", {"0"}, "a shared expert"}};
  return row;
}

ModelFamily arctic() {
  ModelFamily row = like_mixtral("arctic", {"arctic"});
  row.layers = {.step = {{"moe_layer_frequency"}, 2}, .step_shift = 1};
  row.routing.renormalize_from_top_k = 2;
  return row;
}

ModelFamily grok_1() {
  ModelFamily row = like_mixtral("grok_1", {"grok-1", "grok_1", "grok1"});
  row.expert_width = {{"moe_intermediate_size", "intermediate_size"}, std::nullopt};
  row.routing.renormalize = {{}, false};
  row.routing.logit_soft_cap = {{"router_logit_softcapping"}, 30.0};
  row.activation.name = {{}, "gelu_tanh"};
  return row;
}

}  // namespace

std::vector<ModelFamily> mixtral_families() {
  return {
      like_mixtral("mixtral", {"mixtral"}), phimoe(), minimax(), minimax_m2(), arctic(), grok_1()};
}

}  // namespace fusedmoe
