// The lists of parameter mappings, entry by entry.
#include "weights/param_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusedmoe {

void PrintTo(const ParamMapping& mapping, std::ostream* out) {
  *out << mapping.param_name << " <- " << mapping.weight_name << " expert "
       << mapping.expert_id.value_or(-1) << " shard " << static_cast<int>(mapping.shard);
}

namespace {

using ::testing::ElementsAre;
using M = ParamMapping;
constexpr auto kAll = std::nullopt;

TEST(ParamMapping, one_tensor_an_expert_and_projection) {
  EXPECT_THAT(make_expert_params_mapping("gate_proj", "down_proj", "up_proj", 2),
              ElementsAre(M{"experts.w13_", "experts.0.gate_proj.", 0, ExpertShard::kW1},
                          M{"experts.w2_", "experts.0.down_proj.", 0, ExpertShard::kW2},
                          M{"experts.w13_", "experts.0.up_proj.", 0, ExpertShard::kW3},
                          M{"experts.w13_", "experts.1.gate_proj.", 1, ExpertShard::kW1},
                          M{"experts.w2_", "experts.1.down_proj.", 1, ExpertShard::kW2},
                          M{"experts.w13_", "experts.1.up_proj.", 1, ExpertShard::kW3}));
}

TEST(ParamMapping, experts_without_gate_have_no_third_entry) {
  EXPECT_THAT(make_expert_params_mapping("up_proj", "down_proj", "", 1),
              ElementsAre(M{"experts.w13_", "experts.0.up_proj.", 0, ExpertShard::kW1},
                          M{"experts.w2_", "experts.0.down_proj.", 0, ExpertShard::kW2}));
}

TEST(ParamMapping, all_experts_in_one_tensor) {
  EXPECT_THAT(
      make_expert_params_mapping_fused("gate_up_proj", "down_proj", "gate_up_proj_bias",
                                       "down_proj_bias"),
      ElementsAre(
          M{"experts.w13_weight", "experts.gate_up_proj", kAll, ExpertShard::kW13},
          M{"experts.w13_weight_bias", "experts.gate_up_proj_bias", kAll, ExpertShard::kW13},
          M{"experts.w2_weight", "experts.down_proj", kAll, ExpertShard::kW2},
          M{"experts.w2_weight_bias", "experts.down_proj_bias", kAll, ExpertShard::kW2}));
}

TEST(ParamMapping, all_experts_in_one_tensor_with_scales) {
  const auto plain = make_expert_params_mapping_fused("a", "b", "a_bias", "b_bias");
  auto expected = plain;
  expected.push_back({"experts.w13_weight_scale", "experts.a_scales", kAll, ExpertShard::kW13});
  expected.push_back({"experts.w2_weight_scale", "experts.b_scales", kAll, ExpertShard::kW2});
  EXPECT_THAT(
      make_expert_params_mapping_fused_mxfp4("a", "b", "a_bias", "b_bias", "a_scales", "b_scales"),
      ::testing::UnorderedElementsAreArray(expected));
}

TEST(ParamMapping, input_scales) {
  EXPECT_THAT(
      make_expert_input_scale_params_mapping(1),
      ::testing::UnorderedElementsAre(M{"experts.w13_", "experts.0.w1.", 0, ExpertShard::kW1},
                                      M{"experts.w2_", "experts.0.w2.", 0, ExpertShard::kW2},
                                      M{"experts.w13_", "experts.0.w3.", 0, ExpertShard::kW3}));
}

}  // namespace
}  // namespace fusedmoe
