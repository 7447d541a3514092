// The table in parts, by kin, and the layouts that rows share.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/families/family.h"

namespace fusedmoe {

std::vector<ModelFamily> qwen_families();
std::vector<ModelFamily> deepseek_families();
std::vector<ModelFamily> mixtral_families();
std::vector<ModelFamily> stacked_families();
std::vector<ModelFamily> gpt_oss_families();
std::vector<ModelFamily> shared_mlp_families();
std::vector<ModelFamily> hybrid_families();

/// `<base>gate_proj`, `up_proj`, `down_proj`, one tensor an expert when base has "{expert}".
ExpertLayout gate_up_down(const std::string& base);
/// `<base>w1` (gate), `w3` (up), `w2` (down).
ExpertLayout w1_w3_w2(const std::string& base);

}  // namespace fusedmoe
