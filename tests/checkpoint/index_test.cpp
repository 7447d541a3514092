#include "checkpoint/index.h"

#include <fmt/format.h>

#include "checkpoint/handmade_file.h"

namespace fusedmoe {
namespace {

using testing::expect_error;

std::string index_text(std::string_view file_name_json) {
  return fmt::format(R"({{"weight_map":{{"t":{}}}}})", file_name_json);
}

TEST(Index, ReadsFilesAndTotalSize) {
  const SafetensorsIndex index = parse_index(
      R"({"metadata":{"total_size":12,"extra":[1.5]},"weight_map":{"b":"2.safetensors",
          "a":"2.safetensors","c":"1.safetensors"}})",
      "x");
  EXPECT_THAT(index.files, ::testing::ElementsAre(
                               ::testing::Pair("1.safetensors", ::testing::ElementsAre("c")),
                               ::testing::Pair("2.safetensors", ::testing::ElementsAre("a", "b"))));
  EXPECT_EQ(index.total_size, 12.0);
}

TEST(Index, LivesWithoutAUsableTotalSize) {
  for (const char* metadata :
       {R"("metadata":{},)", R"("metadata":null,)", "", R"("metadata":{"total_size":"12"},)"}) {
    const std::string text = fmt::format(R"({{{}"weight_map":{{"a":"1.safetensors"}}}})", metadata);
    EXPECT_FALSE(parse_index(text, "x").total_size.has_value()) << text;
  }
}

struct Refusal {
  const char* name;
  std::string text;
  std::vector<std::string> facts;
};

class IndexRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(IndexRefuses, NamingTheOffence) {
  std::vector<std::string> facts = GetParam().facts;
  facts.emplace_back("file i.json");
  expect_error(ErrorCode::kCorruptData, facts, [] { parse_index(GetParam().text, "file i.json"); });
}

INSTANTIATE_TEST_SUITE_P(
    Table, IndexRefuses,
    ::testing::Values(
        Refusal{"array", "[]", {"weight_map"}}, Refusal{"no_map", "{}", {"weight_map"}},
        Refusal{"map_is_list", R"({"weight_map":[]})", {"weight_map"}},
        Refusal{"empty_map", R"({"weight_map":{}})", {"empty object"}},
        Refusal{"twice",
                R"({"weight_map":{"t":"1.safetensors","t":"2.safetensors"}})",
                {"key 't' twice"}},
        Refusal{"number", index_text("7"), {"tensor 't'", "a JSON number"}},
        Refusal{"empty", index_text(R"("")"), {"tensor 't'", "empty"}},
        Refusal{"parent", index_text(R"("../x.safetensors")"), {"'../x.safetensors'", "separator"}},
        Refusal{"dots", index_text(R"("..safetensors")"), {"'..safetensors'", "\"..\""}},
        Refusal{"absolute", index_text(R"("/etc/x.safetensors")"), {"separator"}},
        Refusal{"subfolder", index_text(R"("a/x.safetensors")"), {"separator"}},
        Refusal{"backslash", index_text(R"("a\\x.safetensors")"), {"separator"}},
        Refusal{"drive", index_text(R"("C:x.safetensors")"), {"colon"}},
        Refusal{"nul", index_text(R"("x\u0000.safetensors")"), {"control character"}},
        Refusal{"long_name", index_text('"' + std::string(300, 'x') + ".safetensors\""), {"255"}},
        Refusal{"pickle", index_text(R"("x.bin")"), {"ending in .safetensors", "'x.bin'"}},
        Refusal{"bad_tensor_name", R"({"weight_map":{"":"1.safetensors"}})", {"an empty name"}}),
    testing::CaseName{});

}  // namespace
}  // namespace fusedmoe
