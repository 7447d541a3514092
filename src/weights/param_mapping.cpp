#include "weights/param_mapping.h"

#include <fmt/format.h>

namespace fusedmoe {
namespace {

constexpr std::string_view kW13 = "experts.w13_";
constexpr std::string_view kW2 = "experts.w2_";

ParamMapping fused(std::string_view param, std::string_view name, ExpertShard shard) {
  return {.param_name = fmt::format("experts.{}", param),
          .weight_name = fmt::format("experts.{}", name),
          .expert_id = std::nullopt,
          .shard = shard};
}

}  // namespace

std::vector<ParamMapping> make_expert_params_mapping(std::string_view ckpt_gate_proj_name,
                                                     std::string_view ckpt_down_proj_name,
                                                     std::string_view ckpt_up_proj_name,
                                                     std::int64_t num_experts) {
  std::vector<ParamMapping> result;
  for (std::int64_t e = 0; e < num_experts; ++e) {
    const auto add = [&](std::string_view param, std::string_view name, ExpertShard shard) {
      if (name.empty()) return;
      result.push_back({.param_name = std::string(param),
                        .weight_name = fmt::format("experts.{}.{}.", e, name),
                        .expert_id = e,
                        .shard = shard});
    };
    add(kW13, ckpt_gate_proj_name, ExpertShard::kW1);
    add(kW2, ckpt_down_proj_name, ExpertShard::kW2);
    add(kW13, ckpt_up_proj_name, ExpertShard::kW3);
  }
  return result;
}

std::vector<ParamMapping> make_expert_params_mapping_fused(
    std::string_view ckpt_gate_up_proj_name, std::string_view ckpt_down_proj_name,
    std::string_view ckpt_gate_up_proj_bias_name, std::string_view ckpt_down_proj_bias_name) {
  return {fused("w13_weight", ckpt_gate_up_proj_name, ExpertShard::kW13),
          fused("w13_weight_bias", ckpt_gate_up_proj_bias_name, ExpertShard::kW13),
          fused("w2_weight", ckpt_down_proj_name, ExpertShard::kW2),
          fused("w2_weight_bias", ckpt_down_proj_bias_name, ExpertShard::kW2)};
}

std::vector<ParamMapping> make_expert_params_mapping_fused_mxfp4(
    std::string_view ckpt_gate_up_proj_name, std::string_view ckpt_down_proj_name,
    std::string_view ckpt_gate_up_proj_bias_name, std::string_view ckpt_down_proj_bias_name,
    std::string_view ckpt_gate_up_proj_scale_name, std::string_view ckpt_down_proj_scale_name) {
  std::vector<ParamMapping> result =
      make_expert_params_mapping_fused(ckpt_gate_up_proj_name, ckpt_down_proj_name,
                                       ckpt_gate_up_proj_bias_name, ckpt_down_proj_bias_name);
  result.push_back(fused("w13_weight_scale", ckpt_gate_up_proj_scale_name, ExpertShard::kW13));
  result.push_back(fused("w2_weight_scale", ckpt_down_proj_scale_name, ExpertShard::kW2));
  return result;
}

std::vector<ParamMapping> make_expert_input_scale_params_mapping(std::int64_t num_experts) {
  return make_expert_params_mapping("w1", "w2", "w3", num_experts);
}

}  // namespace fusedmoe
