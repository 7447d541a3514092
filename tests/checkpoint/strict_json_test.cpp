#include "checkpoint/strict_json.h"

#include "checkpoint/handmade_file.h"

namespace fusedmoe {
namespace {

using testing::expect_error;

struct Refusal {
  const char* name;
  std::string text;
  std::string fact;
};

class StrictJsonRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(StrictJsonRefuses, NamingTheOffence) {
  for (const JsonLimits& limits : {kIndexJsonLimits, kConfigJsonLimits}) {
    expect_error(ErrorCode::kCorruptData, {"file x.json", GetParam().fact},
                 [&] { parse_strict(GetParam().text, limits, "file x.json"); });
  }
}

using namespace std::string_literals;
INSTANTIATE_TEST_SUITE_P(
    Table, StrictJsonRefuses,
    ::testing::Values(
        Refusal{"bom", "\xEF\xBB\xBF{}", "byte order mark"},
        Refusal{"nul_after", "{}\0{"s, "NUL byte at offset 2"},
        Refusal{"nul_inside", "{\0}"s, "NUL byte at offset 1"},
        Refusal{"empty", "", "unexpected end of input"},
        Refusal{"trailing", "{} x", "invalid literal"}, Refusal{"two", "{}{}", "expected end"},
        Refusal{"vertical_tab", "\v{}", "invalid literal"},
        Refusal{"no_break_space", "{}\xC2\xA0", "invalid literal"},
        Refusal{"duplicate", R"({"a":1,"a":2})", "key 'a' twice"},
        Refusal{"duplicate_by_escape", R"({"a":1,"\u0061":2})", "key 'a' twice"},
        Refusal{"duplicate_deep", R"({"t":[{"b":{"k":1,"k":1}}]})", "'k' twice (under 't')"},
        Refusal{"bad_utf8", "{\"\xC3(\":1}", "ill-formed UTF-8"},
        Refusal{"overlong_utf8", "{\"\xC0\xAF\":1}", "ill-formed UTF-8"},
        Refusal{"surrogate_utf8", "{\"\xED\xA0\x80\":1}", "ill-formed UTF-8"},
        Refusal{"lone_surrogate", R"({"\ud800":1})", "surrogate"},
        Refusal{"raw_control", "{\"a\nb\":1}", "control character"},
        Refusal{"comment", "{/* */}", "invalid literal"},
        Refusal{"trailing_comma", R"({"a":1,})", "expected string literal"},
        Refusal{"leading_zero", R"({"a":01})", "unexpected number"},
        Refusal{"half_a_constant", R"({"a":Infinit})", "invalid literal"},
        Refusal{"glued_constant", R"({"a":1NaN})", "file x.json"},
        Refusal{"constant_as_key", R"({NaN:1})", "file x.json"},
        Refusal{"too_deep", std::string(65, '[') + std::string(65, ']'), "deeper than 64"}),
    testing::CaseName{});

TEST(StrictJson, DepthLimitCountsContainers) {
  const std::string at_limit = std::string(64, '[') + std::string(64, ']');
  EXPECT_TRUE(parse_strict(at_limit, kConfigJsonLimits, "x").is_array());
  expect_error(ErrorCode::kCorruptData, {"deeper than 64"},
               [] { parse_strict(std::string(10'000'000, '['), kConfigJsonLimits, "x"); });
}

TEST(StrictJson, AcceptsWhiteSpaceAround) {
  EXPECT_EQ(
      parse_strict(" \t\r\n{\"a\": [1, 2.5, -3, null, true]} \n", kIndexJsonLimits, "x")["a"][1],
      2.5);
}

TEST(StrictJson, PythonConstantsOnlyInConfigurations) {
  const std::string text =
      R"({"a":NaN,"b":[Infinity,-Infinity],"NaN":"-Infinity","q":"\"NaN","e":"\\"})";
  const nlohmann::json json = parse_strict(text, kConfigJsonLimits, "x");
  EXPECT_EQ(json["a"]["__float__"], "NaN");
  EXPECT_EQ(json["b"][0]["__float__"], "Infinity");
  EXPECT_EQ(json["b"][1]["__float__"], "-Infinity");
  EXPECT_EQ(json["NaN"], "-Infinity");
  EXPECT_EQ(json["q"], "\"NaN");
  EXPECT_EQ(json["e"], "\\");
  expect_error(ErrorCode::kCorruptData, {"invalid literal"},
               [&] { parse_strict(text, kIndexJsonLimits, "x"); });
}

TEST(StrictJson, TellsPlainIntegersFromOtherNumbers) {
  std::vector<std::string> integers;
  std::vector<std::string> others;
  read_strict(
      "[0, 9223372036854775807, 9223372036854775808, 18446744073709551616, -0, -7, 1.0, 1e3]",
      kIndexJsonLimits, "x", [&](const JsonEvent& event) {
        if (event.kind == JsonEvent::Kind::kInteger) {
          integers.push_back(std::to_string(event.integer));
        }
        if (event.kind == JsonEvent::Kind::kNumber) others.emplace_back(event.text);
      });
  EXPECT_THAT(integers, ::testing::ElementsAre("0", "9223372036854775807"));
  EXPECT_THAT(others, ::testing::ElementsAre("9223372036854775808", "18446744073709551616", "-0",
                                             "-7", "1.0", "1e3"));
}

TEST(QuotedName, EscapesAndShortens) {
  EXPECT_EQ(quoted_name("a\n\x7F"), "'a\\x0a\\x7f'");
  const std::string shown = quoted_name(std::string(100'000, 'x'));
  EXPECT_LT(shown.size(), 200U);
  EXPECT_TRUE(shown.ends_with("...'"));
}

}  // namespace
}  // namespace fusedmoe
