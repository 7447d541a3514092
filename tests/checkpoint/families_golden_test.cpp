// Every golden checkpoint: the description names exactly the tensors of its blocks, and the numbers
// are those of the table below, which was written from the models' documentation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/families_support.h"

namespace fusedmoe::test {
namespace {

struct GoldenCase {
  const char* folder;
  std::vector<int> layers;
  std::int64_t hidden_size;
  std::int64_t intermediate_size;
  std::int64_t num_experts;
  std::int64_t top_k;
  std::int64_t shared_width;
  ScoringFunc scoring;
  bool renormalize;
  float scaling_factor;
};

const GoldenCase kCases[] = {
    {"mixtral", {0, 1}, 64, 48, 8, 2, 0, ScoringFunc::kSoftmax, true, 1},
    {"qwen2_moe", {0, 1}, 64, 48, 8, 4, 80, ScoringFunc::kSoftmax, false, 1},
    {"qwen3_moe", {0, 1}, 64, 32, 16, 8, 0, ScoringFunc::kSoftmax, true, 1},
    {"qwen3_next", {0}, 64, 24, 16, 10, 48, ScoringFunc::kSoftmax, true, 1},
    {"deepseek_v2", {1}, 64, 24, 16, 6, 48, ScoringFunc::kSoftmax, false, 16},
    {"deepseek_v2_lite", {1}, 64, 24, 16, 6, 48, ScoringFunc::kSoftmax, false, 1},
    {"deepseek_v3", {1, 2}, 64, 32, 16, 4, 32, ScoringFunc::kSigmoid, true, 2.5F},
    {"deepseek_v4", {0, 1}, 64, 32, 8, 3, 32, ScoringFunc::kSqrtSoftplus, true, 1.5F},
    {"glm4_moe", {1}, 96, 32, 16, 4, 32, ScoringFunc::kSigmoid, true, 2.5F},
    {"dots1", {1}, 64, 24, 16, 6, 48, ScoringFunc::kSigmoid, true, 2.5F},
    {"gpt_oss", {0, 1}, 64, 48, 8, 4, 0, ScoringFunc::kTopKSoftmax, false, 1},
    {"llama4", {0, 1}, 64, 48, 16, 1, 48, ScoringFunc::kTopKSigmoid, false, 1},
    {"phimoe", {0}, 64, 48, 8, 2, 0, ScoringFunc::kSparseMixer, false, 1},
    {"olmoe", {0}, 64, 24, 16, 8, 0, ScoringFunc::kSoftmax, false, 1},
    {"flex_olmo", {0}, 64, 48, 7, 5, 0, ScoringFunc::kSoftmax, false, 1},
    {"granitemoe", {0}, 64, 24, 16, 8, 0, ScoringFunc::kTopKSoftmax, false, 1},
    {"ernie4_5_moe", {1}, 64, 24, 16, 6, 48, ScoringFunc::kSoftmax, true, 1},
    {"hunyuan_v1_moe", {0}, 64, 24, 16, 8, 24, ScoringFunc::kSoftmax, true, 1},
    {"hy_v3", {1}, 64, 24, 16, 8, 24, ScoringFunc::kSigmoid, true, 2.826F},
    {"minimax", {0}, 64, 48, 8, 2, 0, ScoringFunc::kSoftmax, true, 1},
    {"minimax_m2", {0}, 64, 24, 16, 8, 0, ScoringFunc::kSigmoid, true, 1},
    {"jamba", {1}, 64, 48, 8, 2, 0, ScoringFunc::kSoftmax, false, 1},
    {"dbrx", {0}, 64, 48, 8, 4, 0, ScoringFunc::kSoftmax, true, 1},
    {"longcat_flash", {0}, 64, 32, 8, 4, 0, ScoringFunc::kSoftmax, false, 6},
    {"lfm2_moe", {1}, 64, 48, 8, 4, 0, ScoringFunc::kSigmoid, true, 1},
    {"afmoe", {1}, 64, 24, 16, 6, 24, ScoringFunc::kSigmoid, true, 2.826F},
    {"nemotron_h", {0}, 64, 40, 16, 6, 56, ScoringFunc::kSigmoid, true, 2.5F},
    {"gemma4", {0}, 64, 48, 8, 2, 0, ScoringFunc::kSoftmax, true, 1},
    {"fp8_qwen3_moe", {0}, 256, 128, 8, 4, 0, ScoringFunc::kSoftmax, true, 1},
    {"fp8_deepseek_v3", {1}, 256, 256, 8, 3, 256, ScoringFunc::kSigmoid, true, 2.5F},
    {"fp8_qwen3_moe_odd", {0}, 192, 96, 8, 2, 0, ScoringFunc::kSoftmax, true, 1},
    {"mxfp4_gpt_oss", {0, 1}, 64, 96, 8, 4, 0, ScoringFunc::kTopKSoftmax, false, 1},
    {"trained_qwen3_moe", {0, 1, 2, 3}, 128, 64, 32, 4, 0, ScoringFunc::kSoftmax, true, 1},
};

class FamiliesGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(FamiliesGolden, ClaimsExactlyTheTensorsOfItsBlocks) {
  OwnedFacts facts = golden_facts(GetParam().folder);
  const ModelDescription model = facts.describe();
  ASSERT_EQ(model.layers.size(), GetParam().layers.size());
  for (const MoeLayerDescription& layer : model.layers) {
    EXPECT_EQ(claimed_names(layer), owned_names(layer, facts.tensors)) << layer.prefix;
    EXPECT_FALSE(claimed_names(layer).empty());
  }
}

TEST_P(FamiliesGolden, NumbersAreThoseOfTheModel) {
  const GoldenCase& expected = GetParam();
  const ModelDescription model = golden_facts(expected.folder).describe();
  const Json metadata =
      read_header(golden_path(expected.folder) + "/golden.safetensors")["__metadata__"];
  EXPECT_THAT(model.warnings, testing::IsEmpty());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const MoeLayerDescription& layer = model.layers[i];
    EXPECT_EQ(layer.layer_index, expected.layers.at(i));
    const std::string key = "layers." + std::to_string(layer.layer_index) + ".checkpoint_prefix";
    EXPECT_EQ(layer.prefix, metadata[key].get<std::string>());
    EXPECT_EQ(layer.hidden_size, expected.hidden_size);
    EXPECT_EQ(layer.intermediate_size, expected.intermediate_size);
    EXPECT_EQ(layer.num_experts, expected.num_experts);
    EXPECT_EQ(layer.routing.num_experts, layer.num_experts + layer.num_identity_experts);
    EXPECT_EQ(layer.routing.top_k, expected.top_k);
    EXPECT_EQ(layer.shared.intermediate_size, expected.shared_width);
    EXPECT_EQ(layer.routing.scoring, expected.scoring);
    EXPECT_EQ(layer.routing.renormalize, expected.renormalize);
    EXPECT_EQ(layer.routing.routed_scaling_factor, expected.scaling_factor);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamiliesGolden, testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.folder); });

TEST(FamiliesGoldenRouting, GroupsAndNormalizersFollowTheFamily) {
  const auto routing = [](const char* folder) {
    return golden_facts(folder).describe().layers.back().routing;
  };
  EXPECT_EQ(routing("deepseek_v2").num_expert_group, 4);
  EXPECT_EQ(routing("deepseek_v2").topk_group, 2);
  EXPECT_EQ(routing("deepseek_v2_lite").num_expert_group, 1);
  EXPECT_EQ(routing("deepseek_v3").num_expert_group, 4);
  EXPECT_EQ(routing("glm4_moe").topk_group, 2);
  EXPECT_EQ(routing("deepseek_v3").renormalize_epsilon, 1e-20F);
  EXPECT_EQ(routing("lfm2_moe").renormalize_epsilon, 1e-6F);
  EXPECT_EQ(routing("minimax_m2").renormalize_epsilon, 0.0F);
  EXPECT_EQ(routing("ernie4_5_moe").renormalize_form, RenormalizeForm::kFloor);
  EXPECT_EQ(routing("ernie4_5_moe").renormalize_epsilon, 1e-12F);
  EXPECT_EQ(routing("dbrx").renormalize_form, RenormalizeForm::kPNorm);
  EXPECT_EQ(routing("dbrx").renormalize_p, 1.0F);
  EXPECT_EQ(routing("phimoe").sparse_mixer_epsilon, 0.01F);
  EXPECT_EQ(routing("longcat_flash").num_experts, 12);
}

TEST(FamiliesGoldenActivation, KindsAndClampsFollowTheFamily) {
  const auto first = [](const char* folder) {
    return golden_facts(folder).describe().layers.front();
  };
  const MoeLayerDescription gpt_oss = first("gpt_oss");
  EXPECT_EQ(gpt_oss.activation.kind, Activation::kSwigluOai);
  EXPECT_EQ(gpt_oss.activation.limit, 7.0F);
  EXPECT_EQ(gpt_oss.activation.alpha, 1.702F);
  EXPECT_TRUE(gpt_oss.has_expert_bias);
  const MoeLayerDescription v4 = first("deepseek_v4");
  EXPECT_EQ(v4.activation.limit, 4.0F);
  EXPECT_EQ(v4.shared.activation.limit, 4.0F);
  EXPECT_EQ(v4.router.hash_table, "model.layers.0.ffn.gate.tid2eid");
  EXPECT_EQ(v4.router.correction_bias, "");
  const MoeLayerDescription nemotron = first("nemotron_h");
  EXPECT_EQ(nemotron.activation.kind, Activation::kRelu2);
  EXPECT_FALSE(nemotron.activation.is_gated);
  const MoeLayerDescription gemma = first("gemma4");
  EXPECT_EQ(gemma.activation.kind, Activation::kGeluTanh);
  EXPECT_TRUE(gemma.router.normalizes_input);
  EXPECT_EQ(gemma.router.per_expert_scale, "model.layers.0.router.per_expert_scale");
  EXPECT_TRUE(first("llama4").apply_router_weight_on_input);
}

TEST(FamiliesGoldenQuant, FormatsAreAnnouncedCompletely) {
  const MoeLayerDescription fp8 = golden_facts("fp8_deepseek_v3").describe().layers.front();
  EXPECT_EQ(fp8.quant.scheme.payload, PayloadFormat::kF8E4M3);
  EXPECT_EQ(fp8.quant.scheme.granularity, ScaleGranularity::kBlock);
  EXPECT_EQ(fp8.quant.scheme.block_n, 128);
  EXPECT_EQ(fp8.quant.scheme.block_k, 128);
  EXPECT_EQ(fp8.quant.scheme.scale_dtype, DType::kF32);
  EXPECT_EQ(fp8.weight_dtype, DType::kF32);
  EXPECT_EQ(fp8.shared.quant.ecosystem, "fp8");
  EXPECT_EQ(fp8.shared.weight_dtype, DType::kF32);
  const MoeLayerDescription mxfp4 = golden_facts("mxfp4_gpt_oss").describe().layers.front();
  EXPECT_EQ(mxfp4.quant.scheme.payload, PayloadFormat::kE2M1);
  EXPECT_EQ(mxfp4.quant.scheme.packing, Packing::kNibblesLowFirst);
  EXPECT_EQ(mxfp4.quant.scheme.group_size, 32);
  EXPECT_EQ(mxfp4.weight_dtype, DType::kBF16);
  EXPECT_FALSE(mxfp4.experts.front().is_transposed);
  EXPECT_TRUE(mxfp4.experts.front().is_interleaved);
}

}  // namespace
}  // namespace fusedmoe::test
