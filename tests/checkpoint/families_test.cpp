// The family table beyond the golden files: other spellings, other layouts, wrappers, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/families_support.h"

namespace fusedmoe::test {
namespace {

using testing::HasSubstr;

/// A model that no golden file has: its config, its tensors, and how much of it is asserted.
struct MadeUpCase {
  const char* name;
  const char* config;
  std::vector<std::string> tensors;  ///< "{expert}": one for each of 4 experts
  const char* family = "";           ///< forced row
  std::int64_t intermediate_size = 16;
  std::int64_t shared_width = 0;
};

const MadeUpCase kMadeUp[] = {
    {"qwen3_vl_moe",
     R"({"model_type":"qwen3_vl_moe","text_config":{"model_type":"qwen3_vl_moe_text",
         "num_hidden_layers":1,"hidden_size":32,"num_experts":4,"num_experts_per_tok":2,
         "moe_intermediate_size":16,"norm_topk_prob":true}})",
     {"model.language_model.layers.0.mlp.gate.weight",
      "model.language_model.layers.0.mlp.experts.gate_up_proj",
      "model.language_model.layers.0.mlp.experts.down_proj"}},
    {"gpt_oss_original",
     R"({"num_hidden_layers":1,"num_experts":4,"experts_per_token":2,"hidden_size":32,
         "intermediate_size":32,"swiglu_limit":7.0})",
     {"block.0.mlp.gate.weight", "block.0.mlp.gate.bias", "block.0.mlp.mlp1_weight.blocks",
      "block.0.mlp.mlp1_weight.scales", "block.0.mlp.mlp1_bias", "block.0.mlp.mlp2_weight.blocks",
      "block.0.mlp.mlp2_weight.scales", "block.0.mlp.mlp2_bias"},
     "gpt_oss_original",
     32},
    {"step3",
     R"({"model_type":"step3_text","num_hidden_layers":2,"hidden_size":32,"moe_num_experts":4,
         "moe_top_k":2,"moe_intermediate_size":16,"share_expert_dim":24,"moe_layers_enum":"1"})",
     {"model.layers.1.moe.gate.weight", "model.layers.1.moe.gate_proj.weight",
      "model.layers.1.moe.up_proj.weight", "model.layers.1.moe.down_proj.weight",
      "model.layers.1.share_expert.gate_proj.weight", "model.layers.1.share_expert.up_proj.weight",
      "model.layers.1.share_expert.down_proj.weight"},
     "",
     16,
     24},
    {"grok_1",
     R"({"model_type":"grok-1","num_hidden_layers":1,"hidden_size":32,"num_local_experts":4,
         "num_experts_per_tok":2,"intermediate_size":64,"moe_intermediate_size":16})",
     {"model.layers.0.block_sparse_moe.gate.weight",
      "model.layers.0.block_sparse_moe.experts.{expert}.w1.weight",
      "model.layers.0.block_sparse_moe.experts.{expert}.w3.weight",
      "model.layers.0.block_sparse_moe.experts.{expert}.w2.weight"}},
    {"bailing_moe_v2",
     R"({"model_type":"bailing_moe_v2","num_hidden_layers":2,"hidden_size":32,"num_experts":4,
         "num_experts_per_tok":2,"moe_intermediate_size":16,"num_shared_experts":1,
         "score_function":"sigmoid","moe_router_enable_expert_bias":true,"n_group":2,"topk_group":1,
         "routed_scaling_factor":2.5,"norm_topk_prob":true,"first_k_dense_replace":1})",
     {"model.layers.1.mlp.gate.weight", "model.layers.1.mlp.gate.expert_bias",
      "model.layers.1.mlp.experts.{expert}.gate_proj.weight",
      "model.layers.1.mlp.experts.{expert}.up_proj.weight",
      "model.layers.1.mlp.experts.{expert}.down_proj.weight",
      "model.layers.1.mlp.shared_experts.gate_proj.weight",
      "model.layers.1.mlp.shared_experts.up_proj.weight",
      "model.layers.1.mlp.shared_experts.down_proj.weight"},
     "",
     16,
     16},
    {"arctic",
     R"({"model_type":"arctic","num_hidden_layers":2,"hidden_size":32,"num_local_experts":4,
         "num_experts_per_tok":2,"intermediate_size":16,"moe_layer_frequency":2})",
     {"model.layers.1.block_sparse_moe.gate.weight",
      "model.layers.1.block_sparse_moe.experts.{expert}.w1.weight",
      "model.layers.1.block_sparse_moe.experts.{expert}.w3.weight",
      "model.layers.1.block_sparse_moe.experts.{expert}.w2.weight"}},
    {"kimi_k2",
     R"({"model_type":"kimi_k2","num_hidden_layers":2,"hidden_size":32,"n_routed_experts":4,
         "num_experts_per_tok":2,"moe_intermediate_size":16,"n_shared_experts":1,"n_group":1,
         "topk_group":1,"routed_scaling_factor":2.827,"first_k_dense_replace":1,
         "moe_layer_freq":1,"scoring_func":"sigmoid","topk_method":"noaux_tc"})",
     {"model.layers.1.mlp.gate.weight", "model.layers.1.mlp.gate.e_score_correction_bias",
      "model.layers.1.mlp.experts.{expert}.gate_proj.weight",
      "model.layers.1.mlp.experts.{expert}.up_proj.weight",
      "model.layers.1.mlp.experts.{expert}.down_proj.weight",
      "model.layers.1.mlp.shared_experts.gate_proj.weight",
      "model.layers.1.mlp.shared_experts.up_proj.weight",
      "model.layers.1.mlp.shared_experts.down_proj.weight"},
     "",
     16,
     16},
    {"granitemoeshared",
     R"({"model_type":"granitemoeshared","num_hidden_layers":1,"hidden_size":32,
         "num_local_experts":4,"num_experts_per_tok":2,"intermediate_size":16,
         "shared_intermediate_size":40})",
     {"model.layers.0.block_sparse_moe.router.layer.weight",
      "model.layers.0.block_sparse_moe.input_linear.weight",
      "model.layers.0.block_sparse_moe.output_linear.weight",
      "model.layers.0.shared_mlp.input_linear.weight",
      "model.layers.0.shared_mlp.output_linear.weight"},
     "",
     16,
     40},
    {"hunyuan_joined_shared",
     R"({"model_type":"hunyuan_v1_moe","num_hidden_layers":1,"hidden_size":32,"num_experts":4,
         "moe_topk":[2],"intermediate_size":64,"moe_intermediate_size":[16],
         "num_shared_expert":[2],"use_mixed_mlp_moe":true})",
     {"model.layers.0.mlp.gate.wg.weight", "model.layers.0.mlp.experts.{expert}.gate_proj.weight",
      "model.layers.0.mlp.experts.{expert}.up_proj.weight",
      "model.layers.0.mlp.experts.{expert}.down_proj.weight",
      "model.layers.0.mlp.shared_mlp.gate_and_up_proj.weight",
      "model.layers.0.mlp.shared_mlp.down_proj.weight"},
     "",
     16,
     32},
    {"deepseek_v4_without_root",
     R"({"model_type":"deepseek_v4","num_hidden_layers":2,"num_hash_layers":1,"hidden_size":32,
         "n_routed_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":16,
         "n_shared_experts":0,"routed_scaling_factor":1.5,"swiglu_limit":10.0})",
     {"layers.0.ffn.gate.weight", "layers.0.ffn.gate.tid2eid",
      "layers.0.ffn.experts.{expert}.w1.weight", "layers.0.ffn.experts.{expert}.w3.weight",
      "layers.0.ffn.experts.{expert}.w2.weight", "layers.1.ffn.gate.weight",
      "layers.1.ffn.gate.bias", "layers.1.ffn.experts.{expert}.w1.weight",
      "layers.1.ffn.experts.{expert}.w3.weight", "layers.1.ffn.experts.{expert}.w2.weight"}},
};

class FamiliesMadeUp : public testing::TestWithParam<MadeUpCase> {};

TEST_P(FamiliesMadeUp, ClaimsExactlyItsTensors) {
  OwnedFacts facts;
  facts.config = Json::parse(GetParam().config);
  for (const std::string& name : GetParam().tensors) facts.add_experts(name, 4);
  // Neighbors whose names begin alike belong to nobody here.
  facts.add("model.layers.0.self_attn.gate.weight");
  facts.add("block.0.mlp.norm.scale");
  const ModelDescription model = facts.describe({.family = GetParam().family});
  std::multiset<std::string> claimed;
  for (const MoeLayerDescription& layer : model.layers) {
    EXPECT_EQ(claimed_names(layer), owned_names(layer, facts.tensors));
    claimed.merge(claimed_names(layer));
    EXPECT_EQ(layer.intermediate_size, GetParam().intermediate_size);
    EXPECT_EQ(layer.shared.intermediate_size, GetParam().shared_width);
    EXPECT_EQ(layer.num_experts, 4);
    EXPECT_EQ(layer.routing.top_k, 2);
  }
  EXPECT_EQ(claimed.size(), facts.tensors.size() - 2);
}

INSTANTIATE_TEST_SUITE_P(All, FamiliesMadeUp, testing::ValuesIn(kMadeUp),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Families, EveryRowIsComplete) {
  std::set<std::string> types;
  for (const ModelFamily& row : builtin_families()) {
    EXPECT_THAT(validate(row), testing::IsEmpty()) << row.family;
    for (const std::string& type : row.model_types) {
      EXPECT_TRUE(types.insert(type).second) << type << " has two rows";
    }
  }
}

TEST(Families, BothSpellingsOfAConfigSayTheSame) {
  const Json expected = to_json(golden_facts("qwen3_moe").describe());
  OwnedFacts published = golden_facts("qwen3_moe");
  published.config["num_experts"] = published.config["num_local_experts"];
  published.config.erase("num_local_experts");
  published.config["torch_dtype"] = published.config["dtype"];
  published.config.erase("dtype");
  EXPECT_EQ(to_json(published.describe()), expected);

  const Json v3 = to_json(golden_facts("deepseek_v3").describe());
  published = golden_facts("deepseek_v3");
  published.config["scoring_func"] = "sigmoid";
  published.config["topk_method"] = "noaux_tc";
  published.config["moe_layer_freq"] = 1;
  EXPECT_EQ(to_json(published.describe()), v3);

  published = golden_facts("nemotron_h");
  const Json nemotron = to_json(published.describe());
  published.config.erase("layers_block_type");
  published.config["hybrid_override_pattern"] = "E*";
  EXPECT_EQ(to_json(published.describe()), nemotron);
}

TEST(Families, SpellingsThatDisagreeAreAnError) {
  OwnedFacts facts = golden_facts("qwen3_moe");
  facts.config["num_experts"] = 8;  // num_local_experts says 16
  const std::string error = error_of([&] { facts.describe(); }, ErrorCode::kCorruptData);
  EXPECT_THAT(error, HasSubstr("num_local_experts"));
  EXPECT_THAT(error, HasSubstr("expected the value of its other spelling, 8, got 16"));
}

TEST(Families, WrappersAreFoundByTheFile) {
  for (const std::string wrapper : {"model.language_model.", "language_model.model."}) {
    OwnedFacts facts = golden_facts("qwen3_moe");
    for (TensorInfo& tensor : facts.tensors) {
      if (tensor.name.starts_with("model.")) tensor.name = wrapper + tensor.name.substr(6);
    }
    const ModelDescription model = facts.describe();
    EXPECT_EQ(model.layers.front().prefix, wrapper + "layers.0.mlp.");
    EXPECT_EQ(claimed_names(model.layers.front()),
              owned_names(model.layers.front(), facts.tensors));
  }
}

TEST(Families, TwoSetsOfLayersAreAnError) {
  OwnedFacts facts = golden_facts("qwen3_moe");
  facts.add("language_model.model.layers.0.mlp.gate.weight");
  EXPECT_THAT(error_of([&] { facts.describe(); }, ErrorCode::kCorruptData),
              HasSubstr("expected one set of tensors, got 2"));
}

TEST(Families, LayerRulesFollowTheConfig) {
  OwnedFacts facts = golden_facts("qwen3_moe");
  facts.config["mlp_only_layers"] = {0};
  EXPECT_EQ(facts.describe().dense_layers, std::vector<int>{0});
  EXPECT_THAT(facts.describe().warnings,
              testing::ElementsAre(HasSubstr("layer 0 has no experts by config.json")));
  facts.config["mlp_only_layers"] = Json::array();
  facts.config["decoder_sparse_step"] = 2;
  EXPECT_EQ(facts.describe().layers.front().layer_index, 1);

  facts = golden_facts("llama4");
  facts.config["text_config"]["moe_layers"] = {1};
  EXPECT_EQ(facts.describe().dense_layers, std::vector<int>{0});
  facts.config["text_config"].erase("moe_layers");
  facts.config["text_config"]["interleave_moe_layer_step"] = 2;
  EXPECT_EQ(facts.describe().dense_layers, std::vector<int>{0});
  facts.config["text_config"]["interleave_moe_layer_step"] = 0;
  EXPECT_EQ(facts.describe().layers.size(), 2U);
}

TEST(Families, LayersBeyondTheModelAreCounted) {
  OwnedFacts facts = golden_facts("deepseek_v3");
  facts.add("model.layers.3.mlp.gate.weight");
  facts.add("model.layers.3.eh_proj.weight");
  facts.add("mtp.fc.weight");
  EXPECT_THAT(facts.describe().warnings,
              testing::ElementsAre(HasSubstr("skipped 2 tensors of layers 3 to 3"),
                                   HasSubstr("skipped 1 tensors of multi-token")));
}

struct BadNumber {
  const char* folder;
  const char* key;
  Json value;
  const char* expected;
};

TEST(Families, NumbersOfTheConfigAreChecked) {
  const BadNumber kBad[] = {
      {"qwen3_moe", "hidden_size", 0, "an integer in [1, 16777216]"},
      {"qwen3_moe", "hidden_size", 64.0, "an integer in [1, 16777216]"},
      {"qwen3_moe", "hidden_size", "64", "an integer in [1, 16777216]"},
      {"qwen3_moe", "hidden_size", 18446744073709551615ULL, "an integer in [1, 16777216]"},
      {"qwen3_moe", "moe_intermediate_size", 16777217, "an integer in [1, 16777216]"},
      {"qwen3_moe", "moe_intermediate_size", nullptr, "an integer, got no such key"},
      {"qwen3_moe", "num_local_experts", 65537, "an integer in [0, 65536]"},
      {"qwen3_moe", "num_local_experts", -1, "an integer in [0, 65536]"},
      {"qwen3_moe", "num_experts_per_tok", 17, "an integer in [1, 16]"},
      {"qwen3_moe", "num_experts_per_tok", 0, "an integer in [1, 16]"},
      {"qwen3_moe", "num_hidden_layers", 4097, "an integer in [1, 4096]"},
      {"qwen3_moe", "norm_topk_prob", 1, "true or false"},
      {"qwen3_moe", "norm_topk_prob", nullptr, "true or false, got no such key"},
      {"qwen3_moe", "mlp_only_layers", "zero", "layer numbers joined by commas"},
      {"deepseek_v3", "n_group", 3, "a divisor of 16 experts"},
      {"deepseek_v3", "topk_group", 5, "an integer in [1, 4]"},
      {"deepseek_v3", "routed_scaling_factor", "2.5", "a number"},
      {"hy_v3", "mlp_layer_types", {"sparse"}, "one entry for each of 2 layers"},
  };
  for (const BadNumber& bad : kBad) {
    OwnedFacts facts = golden_facts(bad.folder);
    facts.config[bad.key] = bad.value;
    const std::string error = error_of([&] { facts.describe(); }, ErrorCode::kCorruptData);
    EXPECT_THAT(error, HasSubstr(bad.expected)) << bad.key << " " << bad.value;
    EXPECT_THAT(error, HasSubstr(bad.key));
    EXPECT_THAT(error, HasSubstr("config.json"));
  }
}

TEST(Families, ModelsWithoutExpertsSaySo) {
  OwnedFacts facts = golden_facts("qwen3_moe");
  facts.config["num_local_experts"] = 0;
  EXPECT_THAT(error_of([&] { facts.describe(); }, ErrorCode::kNotFound),
              HasSubstr("expected MoE layers, got none"));
  facts.config.erase("num_local_experts");
  EXPECT_THAT(error_of([&] { facts.describe(); }, ErrorCode::kNotFound),
              HasSubstr("number of experts: num_experts or num_local_experts"));
  facts = golden_facts("gemma4");
  facts.config["enable_moe_block"] = false;
  EXPECT_NE(error_of([&] { facts.describe(); }, ErrorCode::kNotFound), "");
}

TEST(Families, UnknownModelTypesNameTheNearest) {
  OwnedFacts facts = golden_facts("qwen3_moe");
  facts.config["model_type"] = "qwen3_mo";
  const std::string error = error_of([&] { facts.describe(); }, ErrorCode::kUnsupported);
  EXPECT_THAT(error, HasSubstr("got \"qwen3_mo\""));
  EXPECT_THAT(error, HasSubstr("nearest are qwen3_moe"));
  EXPECT_THAT(error, HasSubstr("--family"));
  EXPECT_EQ(to_json(facts.describe({.family = "qwen3_moe"})),
            to_json(golden_facts("qwen3_moe").describe()));
  EXPECT_THAT(error_of([&] { facts.describe({.family = "qwen3"}); }, ErrorCode::kNotFound),
              HasSubstr("qwen3_moe"));
}

TEST(Families, SettingsThatChangeTheLayerAreRefused) {
  OwnedFacts facts = golden_facts("nemotron_h");
  facts.config["moe_latent_size"] = 32;
  EXPECT_THAT(error_of([&] { facts.describe(); }, ErrorCode::kUnsupported),
              HasSubstr("moe_latent_size: expected null, got 32"));
  facts = golden_facts("minimax");
  facts.config["shared_intermediate_size"] = 0;
  EXPECT_EQ(facts.describe().layers.size(), 1U);
  facts.config["shared_intermediate_size"] = 64;
  EXPECT_THAT(error_of([&] { facts.describe(); }, ErrorCode::kUnsupported),
              HasSubstr("learned coefficient"));
  facts = golden_facts("deepseek_v3");
  facts.config["scoring_func"] = "cosine";
  EXPECT_THAT(error_of([&] { facts.describe(); }, ErrorCode::kUnsupported), HasSubstr("cosine"));
}

TEST(Families, ConfigsAsPythonWritesThemAreRead) {
  OwnedFacts facts = golden_facts("nemotron_h");
  std::string text = facts.config.dump();
  text.insert(1, R"("note":"NaN \"Infinity", "limit":[0.0, Infinity, -Infinity, NaN], )");
  const ModelConfig config(text, "config.json");
  EXPECT_EQ(*config.find("note"), R"(NaN "Infinity)");
  EXPECT_EQ((*config.find("limit")).size(), 4U);
  EXPECT_NE(error_of([] { ModelConfig("{\"a\":", "config.json"); }, ErrorCode::kCorruptData), "");
}

TEST(Families, ElementTypesComeFromTheFileAndAgree) {
  OwnedFacts facts = golden_facts("qwen3_moe");
  for (TensorInfo& tensor : facts.tensors) tensor.dtype = DType::kF16;
  EXPECT_EQ(facts.describe().layers.front().weight_dtype, DType::kF16);
  facts = golden_facts("qwen3_moe");
  for (TensorInfo& tensor : facts.tensors) {
    if (tensor.name == "model.layers.0.mlp.experts.7.up_proj.weight") tensor.dtype = DType::kF32;
  }
  EXPECT_THAT(error_of([&] { facts.describe(); }, ErrorCode::kUnsupported),
              HasSubstr("got F32 (model.layers.0.mlp.experts.7.up_proj.weight)"));
  facts = golden_facts("fp8_qwen3_moe");
  facts.config.erase("quantization_config");
  EXPECT_THAT(error_of([&] { facts.describe(); }, ErrorCode::kUnsupported),
              HasSubstr("no quantization is announced"));
}

TEST(Families, ExpertsLeftPlainAreToldApart) {
  OwnedFacts facts = golden_facts("fp8_deepseek_v3");
  auto& ignored = facts.config["quantization_config"]["modules_to_not_convert"];
  ignored.push_back("model.layers.1.mlp.shared_experts");
  for (TensorInfo& tensor : facts.tensors) {
    if (tensor.name.find("shared_experts") != std::string::npos) tensor.dtype = DType::kBF16;
  }
  MoeLayerDescription layer = facts.describe().layers.front();
  EXPECT_EQ(layer.quant.ecosystem, "fp8");
  EXPECT_EQ(layer.shared.quant.ecosystem, "none");
  EXPECT_EQ(layer.shared.weight_dtype, DType::kBF16);
  ignored.push_back("model.layers.1.mlp.experts.3");
  EXPECT_THAT(error_of([&] { facts.describe(); }, ErrorCode::kUnsupported),
              HasSubstr("expected all experts of a layer in one format"));
}

TEST(Families, AFileThatDescribesAFamilyGivesTheSameDescription) {
  // The example of the documentation, so that it stays true.
  const std::string docs = read_text(FUSEDMOE_TEST_DATA "/../../docs/checkpoints.md");
  const std::size_t begin = docs.find("```json\n");
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = docs.find("```", begin + 8);
  const std::string path = testing::TempDir() + "/fusedmoe_family_test.json";
  std::ofstream(path) << docs.substr(begin + 8, end - begin - 8);
  OwnedFacts facts = golden_facts("qwen3_moe");
  const Json expected = to_json(facts.describe());
  facts.config["model_type"] = "nobody_knows_it";
  EXPECT_EQ(to_json(facts.describe({.family_file = path})), expected);
}

TEST(Families, FaultsOfAFamilyFileAreNamed) {
  const auto error = [](const std::string& text) {
    return error_of([&] { parse_family(text, "mine.json"); }, ErrorCode::kInvalidArgument);
  };
  EXPECT_THAT(error(R"({"familie":"x"})"), HasSubstr("got \"familie\" (mine.json)"));
  EXPECT_THAT(error(R"({"family":"x"})"), HasSubstr("no router.weight"));
  EXPECT_THAT(error(R"({"top_k":{"default":true}})"),
              HasSubstr("root.top_k.default: expected an integer, got true"));
  EXPECT_THAT(error(R"({"experts":[{"tensors":[{"module":"a","shard":"w9"}]}]})"),
              HasSubstr("root.experts[0].tensors[0].shard"));
}

TEST(Families, TheDocumentedTableIsTheTableOfTheCode) {
  std::string table =
      "| family | model types | router | experts | activation | shared expert |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const FamilySummary& row : list_families()) {
    std::string types;
    for (const std::string& type : row.model_types)
      types += (types.empty() ? "`" : ", `") + type + "`";
    table += "| " + row.family + " | " + (types.empty() ? "(by name)" : types) + " | " +
             row.router + " | " + row.expert_layout + " | " + row.activation + " | " +
             row.shared_experts + " |\n";
  }
  const std::string docs = read_text(FUSEDMOE_TEST_DATA "/../../docs/checkpoints.md");
  const std::string begin = "<!-- families:begin -->\n";
  const std::size_t from = docs.find(begin);
  const std::size_t to = docs.find("<!-- families:end -->");
  ASSERT_NE(from, std::string::npos);
  EXPECT_TRUE(docs.substr(from + begin.size(), to - from - begin.size()) == table)
      << "docs/checkpoints.md: put this table between the markers\n"
      << table;
}

}  // namespace
}  // namespace fusedmoe::test
