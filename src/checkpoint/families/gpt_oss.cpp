// gpt-oss in both of its publications: interleaved gate and up, biases everywhere, MXFP4 or BF16.
//
// Source  the gpt-oss model card and repository; the transformers class GptOss
#include "checkpoint/families/rows.h"

namespace fusedmoe {
namespace {

ExpertLayout plain() {
  const auto pattern = [](const std::string& module, ExpertShard shard) {
    return ExpertTensorPattern{.module = module,
                               .weight_suffix = "",
                               .bias_suffix = "_bias",
                               .shard = shard,
                               .is_stacked = true,
                               .is_transposed = true,
                               .is_interleaved = shard == ExpertShard::kW13};
  };
  return {.tensors = {pattern("mlp.experts.gate_up_proj", ExpertShard::kW13),
                      pattern("mlp.experts.down_proj", ExpertShard::kW2)}};
}

ExpertLayout blocks(const std::string& up, const std::string& down, const std::string& suffix) {
  const auto pattern = [&](const std::string& module, ExpertShard shard) {
    return ExpertTensorPattern{.module = module,
                               .weight_suffix = suffix,
                               .bias_suffix = "_bias",
                               .shard = shard,
                               .is_stacked = true,
                               .is_interleaved = shard == ExpertShard::kW13};
  };
  return {.tensors = {pattern(up, ExpertShard::kW13), pattern(down, ExpertShard::kW2)},
          .ecosystem = "mxfp4"};
}

ModelFamily gpt_oss() {
  return {
      .family = "gpt_oss",
      .model_types = {"gpt_oss"},
      .block = "mlp.",
      .num_experts = {{"num_local_experts", "num_experts"}, std::nullopt},
      .top_k = {{"num_experts_per_tok", "experts_per_token"}, std::nullopt},
      .expert_width = {{"intermediate_size"}, std::nullopt},
      .has_expert_bias = {{}, true},
      .router = {.weight = "mlp.router.weight", .bias = "mlp.router.bias"},
      .routing = {.scoring = {{}, "topk_softmax"}, .renormalize = {{}, false}},
      .activation = {.name = {{}, "swigluoai"},
                     .alpha = {{"swiglu_alpha"}, 1.702},
                     .limit = {{"swiglu_limit"}, 7.0}},
      .experts = {plain(), blocks("mlp.experts.gate_up_proj", "mlp.experts.down_proj", "_blocks")}};
}

/// The original files announce nothing: their config has neither model_type nor quantization. Two
/// of the block's tensors are the norm that runs before it.
ModelFamily gpt_oss_original() {
  ModelFamily row = gpt_oss();
  row.family = "gpt_oss_original";
  row.model_types = {};
  row.layer = "block.{layer}.";
  row.owned = {"mlp.gate.", "mlp.mlp1_", "mlp.mlp2_"};
  row.router = {.weight = "mlp.gate.weight", .bias = "mlp.gate.bias"};
  ExpertLayout layout = blocks("mlp.mlp1", "mlp.mlp2", "_weight.blocks");
  layout.is_implied = true;
  layout.scale_suffix = "_weight.scales";
  row.experts = {layout};
  return row;
}

}  // namespace

std::vector<ModelFamily> gpt_oss_families() { return {gpt_oss(), gpt_oss_original()}; }

}  // namespace fusedmoe
