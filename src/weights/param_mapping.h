// Which parameter a checkpoint tensor belongs to, as the lists that serving frameworks scan.
//
// An entry says: a tensor whose name has `weight_name` in it, at component boundaries, belongs to
// the parameter that `param_name` completes; the tail of the name is carried over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusedmoe/model.h"

namespace fusedmoe {

struct ParamMapping {
  std::string param_name;                 ///< "experts.w13_"
  std::string weight_name;                ///< "experts.7.gate_proj."
  std::optional<std::int64_t> expert_id;  ///< logical; absent for tensors that hold all experts
  ExpertShard shard = ExpertShard::kW1;

  friend bool operator==(const ParamMapping&, const ParamMapping&) = default;
};

/// One tensor per expert and projection: for each expert gate, down, up.
/// @param ckpt_up_proj_name "" for experts without a gate: they have no such entry.
/// @param num_experts       routed and fused shared experts.
std::vector<ParamMapping> make_expert_params_mapping(std::string_view ckpt_gate_proj_name,
                                                     std::string_view ckpt_down_proj_name,
                                                     std::string_view ckpt_up_proj_name,
                                                     std::int64_t num_experts);

/// All experts in one tensor, gate and up together.
std::vector<ParamMapping> make_expert_params_mapping_fused(
    std::string_view ckpt_gate_up_proj_name, std::string_view ckpt_down_proj_name,
    std::string_view ckpt_gate_up_proj_bias_name, std::string_view ckpt_down_proj_bias_name);

/// The same with block scales.
std::vector<ParamMapping> make_expert_params_mapping_fused_mxfp4(
    std::string_view ckpt_gate_up_proj_name, std::string_view ckpt_down_proj_name,
    std::string_view ckpt_gate_up_proj_bias_name, std::string_view ckpt_down_proj_bias_name,
    std::string_view ckpt_gate_up_proj_scale_name, std::string_view ckpt_down_proj_scale_name);

/// Input scales under w1, w2, w3 whatever the weights are called.
std::vector<ParamMapping> make_expert_input_scale_params_mapping(std::int64_t num_experts);

}  // namespace fusedmoe
