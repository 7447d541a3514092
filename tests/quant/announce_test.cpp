// What a checkpoint announces, and which modules it leaves plain.
#include "quant/announce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

struct Folder {
  Json config = Json::object();
  std::string side_name;
  std::string side_text;
  std::vector<std::string> warnings;

  QuantAnnouncement announce() {
    return announce_quantization(
        config,
        [this](std::string_view name) { return name == side_name ? side_text : std::string(); },
        warnings);
  }
  std::string error(ErrorCode code) {
    try {
      announce();
    } catch (const Error& error) {
      return error.code() == code ? error.what() : "wrong code: " + std::string(error.what());
    }
    return "";
  }
};

Folder with_config(const char* quantization) {
  Folder folder;
  folder.config["quantization_config"] = Json::parse(quantization);
  return folder;
}

TEST(Announce, NothingIsNone) {
  const QuantAnnouncement announcement = Folder{}.announce();
  EXPECT_EQ(announcement.ecosystem, "none");
  EXPECT_FALSE(announcement.scheme.is_quantized());
}

TEST(Announce, Fp8InItsThreeForms) {
  Folder block = with_config(
      R"({"quant_method":"fp8","activation_scheme":"dynamic","weight_block_size":[64,32]})");
  EXPECT_EQ(block.announce().scheme.block_n, 64);
  EXPECT_EQ(block.announce().scheme.block_k, 32);
  EXPECT_EQ(block.announce().suffixes.back().suffix, ".weight_scale_inv");
  Folder dynamic = with_config(R"({"quant_method":"fp8","activation_scheme":"dynamic"})");
  EXPECT_EQ(dynamic.announce().scheme.granularity, ScaleGranularity::kTensor);
  EXPECT_EQ(dynamic.announce().suffixes.back().suffix, ".weight_scale");
  Folder fixed = with_config(R"({"quant_method":"fp8","activation_scheme":"static"})");
  EXPECT_EQ(fixed.announce().scheme.activation_scaling, ActivationScaling::kStaticTensor);
  EXPECT_EQ(fixed.announce().suffixes.back().role, ParamRole::kInputScale);
}

TEST(Announce, ContradictionsAreErrors) {
  EXPECT_THAT(with_config(R"({"quant_method":"fp8"})").error(ErrorCode::kCorruptData),
              HasSubstr("activation_scheme: expected \"dynamic\" or \"static\", got null"));
  EXPECT_THAT(
      with_config(
          R"({"quant_method":"fp8","activation_scheme":"static","weight_block_size":[1,1]})")
          .error(ErrorCode::kCorruptData),
      HasSubstr("\"dynamic\" with weight_block_size"));
  for (const char* block : {"[128]", "[128,0]", "[128,1.5]", "128", "[1,2,3]"}) {
    Folder folder = with_config(R"({"quant_method":"fp8","activation_scheme":"dynamic"})");
    folder.config["quantization_config"]["weight_block_size"] = Json::parse(block);
    EXPECT_THAT(folder.error(ErrorCode::kCorruptData), HasSubstr("two positive integers")) << block;
  }
  EXPECT_THAT(with_config(R"({"bits":4})").error(ErrorCode::kCorruptData),
              HasSubstr("expected a quant_method"));
  EXPECT_THAT(with_config("[]").error(ErrorCode::kCorruptData), HasSubstr("JSON object"));
}

TEST(Announce, OtherEcosystemsAreRefusedByName) {
  EXPECT_THAT(with_config(R"({"quant_method":"gptq","bits":4})").error(ErrorCode::kUnsupported),
              HasSubstr("recognized: gptq 4-bit; this version runs"));
  // Names are compared as a whole: none of these is fp8.
  for (const char* name : {"w8a8_fp8", "fbgemm_fp8", "mxfp8", "modelopt", "quark", "w4afp8"}) {
    Folder folder;
    folder.config["quantization_config"]["quant_method"] = name;
    EXPECT_THAT(folder.error(ErrorCode::kUnsupported),
                HasSubstr(std::string("recognized: ") + name));
  }
  EXPECT_THAT(with_config(R"({"quant_method":"zip"})").error(ErrorCode::kUnsupported),
              HasSubstr("unknown format: zip"));
}

TEST(Announce, PlacesAreSearchedInOrder) {
  Folder folder;
  folder.side_name = "hf_quant_config.json";
  folder.side_text = R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4"}})";
  EXPECT_THAT(folder.error(ErrorCode::kUnsupported), HasSubstr("recognized: modelopt NVFP4"));
  folder.config["text_config"]["quantization_config"] = {{"quant_method", "mxfp4"}};
  EXPECT_EQ(folder.announce().ecosystem, "mxfp4");
  folder.config["quantization_config"] = {{"quant_method", "fp8"},
                                          {"activation_scheme", "dynamic"}};
  EXPECT_EQ(folder.announce().ecosystem, "fp8");
  folder.side_name = "quant_model_description.json";
  EXPECT_THAT(folder.error(ErrorCode::kUnsupported), HasSubstr("recognized: modelslim"));
  Folder old;
  old.side_name = "quant_config.json";
  old.side_text = R"({"w_bit":4})";
  EXPECT_THAT(old.error(ErrorCode::kUnsupported), HasSubstr("recognized: awq 4-bit"));
}

TEST(Announce, KeysThatNothingReadsAreListed) {
  Folder folder = with_config(R"({"quant_method":"mxfp4","surprise":1})");
  folder.announce();
  EXPECT_THAT(folder.warnings, testing::ElementsAre(HasSubstr("nothing reads surprise")));
}

TEST(IgnoredModules, MatchWholeComponents) {
  QuantAnnouncement announcement;
  announcement.ignored_modules = {"model.layers.1.mlp", "lm_head", "layers.*.mlp.shared_experts",
                                  "model.layers.2.mlp.experts.3."};
  EXPECT_TRUE(is_ignored(announcement, "model.layers.1.mlp"));
  EXPECT_TRUE(is_ignored(announcement, "model.layers.1.mlp.experts.0.up_proj"));
  EXPECT_TRUE(is_ignored(announcement, "language_model.model.layers.1.mlp.gate"));
  EXPECT_TRUE(is_ignored(announcement, "model.layers.7.mlp.shared_experts.up_proj"));
  EXPECT_TRUE(is_ignored(announcement, "model.layers.2.mlp.experts.3.up_proj"));
  EXPECT_FALSE(is_ignored(announcement, "model.layers.2.mlp.experts.31.up_proj"));
  EXPECT_FALSE(is_ignored(announcement, "model.layers.11.mlp.gate"));
  EXPECT_FALSE(is_ignored(announcement, "model.layers.1.mlp_norm"));
  EXPECT_FALSE(is_ignored(announcement, "model.layers.7.mlp.shared_experts_gate"));
  announcement.ignored_modules = {"re:.*gate"};
  EXPECT_THROW(is_ignored(announcement, "model.layers.1"), Error);
}

}  // namespace
}  // namespace fusedmoe
