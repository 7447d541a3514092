// Every MoE layer of every golden checkpoint: chosen experts as sets, weights within 1e-5.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "layer/routing/routing_run.h"
#include "reference/tiny_safetensors.h"

namespace fusedmoe::test {
namespace {

struct Family {
  const char* name;
  TopKConfig config;      // without num_experts and top_k: the tensors' shapes give them
  const char* bias = "";  // name of the correction bias below the block's prefix
  const char* scale = "";
  const char* table = "";
};

constexpr auto kSigmoid = ScoringFunc::kSigmoid;

TopKConfig softmax(bool renormalize, float factor = 1.0F) {
  return {.renormalize = renormalize, .routed_scaling_factor = factor};
}
TopKConfig scored(ScoringFunc scoring, float epsilon, float factor, std::int64_t groups = 1,
                  std::int64_t kept = 1) {
  return {.scoring = scoring,
          .renormalize_epsilon = epsilon,
          .routed_scaling_factor = factor,
          .num_expert_group = groups,
          .topk_group = kept};
}

std::vector<Family> families() {
  const TopKConfig topk_softmax{.scoring = ScoringFunc::kTopKSoftmax};
  const char* e_score = "gate.e_score_correction_bias";
  TopKConfig deepseek_v2 = softmax(false, 16.0F);
  deepseek_v2.num_expert_group = 4;
  deepseek_v2.topk_group = 2;
  TopKConfig ernie = softmax(true);
  ernie.renormalize_form = RenormalizeForm::kFloor;
  ernie.renormalize_epsilon = 1e-12F;
  TopKConfig dbrx = softmax(true);
  dbrx.renormalize_form = RenormalizeForm::kPNorm;
  return {
      {"mixtral", softmax(true)},
      {"minimax", softmax(true)},
      {"hunyuan_v1_moe", softmax(true)},
      {"qwen2_moe", softmax(false)},
      {"qwen3_moe", softmax(true)},
      {"qwen3_next", softmax(true)},
      {"fp8_qwen3_moe", softmax(true)},
      {"fp8_qwen3_moe_odd", softmax(true)},
      {"trained_qwen3_moe", softmax(true)},
      {"olmoe", softmax(false)},
      {"flex_olmo", softmax(false)},
      {"jamba", softmax(false)},
      {"dbrx", dbrx},
      {"granitemoe", topk_softmax},
      {"gpt_oss", topk_softmax},
      {"mxfp4_gpt_oss", topk_softmax},
      {"llama4", {.scoring = ScoringFunc::kTopKSigmoid, .renormalize = false}},
      {"phimoe", {.scoring = ScoringFunc::kSparseMixer, .renormalize = false}},
      {"deepseek_v2", deepseek_v2},
      {"deepseek_v2_lite", softmax(false)},
      {"deepseek_v3", scored(kSigmoid, 1e-20F, 2.5F, 4, 2), e_score},
      {"fp8_deepseek_v3", scored(kSigmoid, 1e-20F, 2.5F, 4, 2), e_score},
      {"glm4_moe", scored(kSigmoid, 1e-20F, 2.5F, 4, 2), e_score},
      {"dots1", scored(kSigmoid, 1e-20F, 2.5F), e_score},
      {"nemotron_h", scored(kSigmoid, 1e-20F, 2.5F), e_score},
      {"minimax_m2", scored(kSigmoid, 0.0F, 1.0F), "e_score_correction_bias"},
      {"hy_v3", scored(kSigmoid, 1e-20F, 2.826F), "expert_bias"},
      {"afmoe", scored(kSigmoid, 1e-20F, 2.826F), "expert_bias"},
      {"lfm2_moe", scored(kSigmoid, 1e-6F, 1.0F), "expert_bias"},
      {"ernie4_5_moe", ernie, "moe_statics.e_score_correction_bias"},
      {"longcat_flash", softmax(false, 6.0F), "router.e_score_correction_bias"},
      {"deepseek_v4", scored(ScoringFunc::kSqrtSoftplus, 1e-20F, 1.5F), "gate.bias", "",
       "gate.tid2eid"},
      {"gemma4", softmax(true), "", "router.per_expert_scale"},
  };
}

class GoldenRouting : public testing::TestWithParam<Family> {
 protected:
  void check_layer(const std::string& layer);

  std::string folder_ = std::string(FUSEDMOE_TEST_DATA) + "/golden/" + GetParam().name + "/";
  TinySafetensors golden_{folder_ + "golden.safetensors"};
  TinySafetensors model_{folder_ + "model.safetensors"};
};

bool has(const TinySafetensors& file, const std::string& name) {
  try {
    file.shape(name);
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void GoldenRouting::check_layer(const std::string& layer) {
  const std::string at = "layers." + layer + ".";
  std::string prefix = golden_.metadata(at + "checkpoint_prefix");
  if (!prefix.empty() && prefix.back() != '.') prefix += '.';
  const Family& family = GetParam();
  TopKConfig config = family.config;
  config.num_experts = golden_.shape(at + "router_logits")[1];
  config.top_k = golden_.shape(at + "topk_ids")[1];
  std::vector<std::int64_t> table;
  std::vector<std::int32_t> input_ids;
  RouteOptions options;
  if (has(golden_, at + "input_ids")) {
    table = model_.values<std::int64_t>(prefix + family.table);
    input_ids = golden_.values<std::int32_t>(at + "input_ids");
    const auto rows = static_cast<std::int64_t>(table.size()) / config.top_k;
    options.hash_table = {table.data(), DType::kI64, Shape{rows, config.top_k}};
    options.input_ids = {input_ids.data(), DType::kI32,
                         Shape{static_cast<std::int64_t>(input_ids.size())}};
  } else if (*family.bias != '\0') {
    config.correction_bias = model_.floats(prefix + family.bias);
  }
  if (*family.scale != '\0') config.per_expert_scale = model_.floats(prefix + family.scale);
  const Routed routed = route_all(config, golden_.floats(at + "router_logits"), options);
  const auto ids = golden_.values<std::int32_t>(at + "topk_ids");
  const auto weights = golden_.floats(at + "topk_weights");
  const auto k = static_cast<std::size_t>(config.top_k);
  ASSERT_EQ(ids.size(), routed.ids.size());
  for (std::size_t row = 0; row * k < ids.size(); ++row) {
    std::map<std::int32_t, float> expected;
    std::map<std::int32_t, float> got;
    for (std::size_t j = row * k; j < (row + 1) * k; ++j) {
      expected[ids[j]] = weights[j];
      got[routed.ids[j]] = routed.weights[j];
    }
    ASSERT_EQ(got.size(), k);
    for (const auto& [id, weight] : expected) {
      ASSERT_TRUE(got.contains(id)) << "layer " << layer << " row " << row << " expert " << id;
      EXPECT_NEAR(got[id], weight, 1e-5F * std::fabs(weight))
          << "layer " << layer << " row " << row;
    }
  }
}

TEST_P(GoldenRouting, ChoosesAndWeighsAsTheModelDoes) {
  std::istringstream layers(golden_.metadata("layers"));
  int num_layers = 0;
  for (std::string layer; std::getline(layers, layer, ',');) {
    check_layer(std::to_string(std::stoi(layer)));
    ++num_layers;
  }
  EXPECT_GT(num_layers, 0);
}

std::string family_name(const testing::TestParamInfo<Family>& family) { return family.param.name; }

INSTANTIATE_TEST_SUITE_P(Families, GoldenRouting, testing::ValuesIn(families()), family_name);

}  // namespace
}  // namespace fusedmoe::test
