#include "checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include "checkpoint/handmade_file.h"

namespace fusedmoe {
namespace {

using testing::expect_error;
using testing::safetensors_bytes;

SafetensorsHeader parse(std::string_view bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size(), "file x");
}

SafetensorsHeader parse(std::string_view header, std::size_t num_data_bytes) {
  return parse(safetensors_bytes(header, std::string(num_data_bytes, '\0')));
}

std::string entry(std::string_view fields) { return fmt::format(R"({{"t":{{{}}}}})", fields); }

constexpr std::string_view kTwoTensors =
    R"({"__metadata__":{"format":"pt"},)"
    R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
    R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
    R"("z":{"dtype":"I64","shape":[0,7],"data_offsets":[28,28]}})";

TEST(SafetensorsHeader, ReadsEntriesInFileOrder) {
  const SafetensorsHeader header = parse(kTwoTensors, 28);
  const std::uint64_t data_begin = 8 + kTwoTensors.size();
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[0].offset, data_begin);
  EXPECT_EQ(header.tensors[1].name, "a");
  EXPECT_EQ(header.tensors[1].dtype, DType::kF32);
  EXPECT_EQ(header.tensors[1].shape, (Shape{2, 3}));
  EXPECT_EQ(header.tensors[1].offset, data_begin + 4);
  EXPECT_EQ(header.tensors[1].num_bytes, 24U);
  EXPECT_EQ(header.tensors[2].num_bytes, 0U);
  EXPECT_THAT(header.metadata, ::testing::ElementsAre(std::pair("format", "pt")));
}

TEST(SafetensorsHeader, AcceptsAnEmptyFileAndPadding) {
  EXPECT_TRUE(parse("{}", 0).tensors.empty());
  EXPECT_TRUE(parse("\n\t{}  \r ", 0).tensors.empty());
}

TEST(SafetensorsHeader, RefusesTheFileCutAtEveryByte) {
  const std::string bytes = safetensors_bytes(kTwoTensors, std::string(28, 'x'));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    SCOPED_TRACE(size);
    expect_error(ErrorCode::kCorruptData, {"file x", "expected"},
                 [&] { parse(std::string_view(bytes).substr(0, size)); });
  }
  EXPECT_EQ(parse(bytes).tensors.size(), 3U);
}

TEST(SafetensorsHeader, RefusesTheHeaderCutAtEveryByte) {
  // The length field agrees with the text: only the JSON itself can tell.
  for (std::size_t size = 0; size < kTwoTensors.size(); ++size) {
    SCOPED_TRACE(size);
    expect_error(ErrorCode::kCorruptData, {"file x", "expected"},
                 [&] { parse(kTwoTensors.substr(0, size), 28); });
  }
}

TEST(SafetensorsHeader, RefusesLengthFields) {
  const std::uint64_t lengths[] = {0,
                                   1,
                                   3,
                                   kMaxHeaderBytes + 1,
                                   std::uint64_t{1} << 63,
                                   ~std::uint64_t{0},
                                   ~std::uint64_t{0} - 7};
  for (const std::uint64_t length : lengths) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    bytes += "{}";
    expect_error(ErrorCode::kCorruptData, {"file x", fmt::format("length field of {}", length)},
                 [&] { parse(bytes); });
  }
  // A huge sparse file does not raise the limit.
  std::string bytes(8, '\0');
  const std::uint64_t length = kMaxHeaderBytes + 1;
  std::memcpy(bytes.data(), &length, 8);
  expect_error(ErrorCode::kCorruptData, {"2 to 100000000", "100000001"}, [&] {
    parse_safetensors_header(std::as_bytes(std::span(bytes)), std::uint64_t{1} << 50, "file x");
  });
}

TEST(SafetensorsHeader, NamesAGitLfsPlaceholder) {
  expect_error(ErrorCode::kCorruptData, {"Git LFS", "git lfs pull"}, [] {
    parse("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
  });
}

struct Hostile {
  const char* name;
  std::string header;
  std::size_t num_data_bytes;
  std::vector<std::string> facts;
};

class SafetensorsHeaderRefuses : public ::testing::TestWithParam<Hostile> {};

TEST_P(SafetensorsHeaderRefuses, NamingTheOffence) {
  std::vector<std::string> facts = GetParam().facts;
  facts.emplace_back("file x");
  expect_error(ErrorCode::kCorruptData, facts,
               [] { parse(GetParam().header, GetParam().num_data_bytes); });
}

const Hostile kHostile[] = {
    // R2, R3: the JSON itself (all of it in strict_json_test.cpp).
    {"array_root", "[]", 0, {"one JSON object", "got an array"}},
    {"scalar_root", "17", 0, {"one JSON object", "got an integer"}},
    {"nul_padding", std::string("{}\0\0", 4), 0, {"NUL byte"}},
    {"byte_order_mark", "\xEF\xBB\xBF{}", 0, {"byte order mark"}},
    {"deep", R"({"t":{"shape":[[[0]]]}})", 0, {"tensor 't'", "got an array"}},
    {"same_tensor_twice",
     R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
     0,
     {"key 't' twice"}},
    {"same_field_twice",
     entry(R"("dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0])"),
     0,
     {"key 'dtype' twice", "'t'"}},
    {"same_metadata_twice", R"({"__metadata__":{"k":"a","k":"b"}})", 0, {"key 'k' twice"}},
    // R4: fields, types, numbers.
    {"entry_is_string", R"({"t":"x"})", 0, {"tensor 't'", "an object", "got a string"}},
    {"no_dtype", entry(R"("shape":[0],"data_offsets":[0,0])"), 0, {"tensor 't'", "a field dtype"}},
    {"no_shape", entry(R"("dtype":"U8","data_offsets":[0,0])"), 0, {"tensor 't'", "a field shape"}},
    {"no_offsets", entry(R"("dtype":"U8","shape":[0])"), 0, {"tensor 't'", "field data_offsets"}},
    {"extra_field",
     entry(R"("dtype":"U8","shape":[0],"data_offsets":[0,0],"strides":[1])"),
     0,
     {"tensor 't'", "'strides'"}},
    {"dtype_number",
     entry(R"("dtype":8,"shape":[0],"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "a string for dtype", "an integer"}},
    {"dtype_array",
     entry(R"("dtype":[],"shape":[0],"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "a string for dtype", "an array"}},
    {"shape_object",
     entry(R"("dtype":"U8","shape":{},"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "an array for shape", "an object"}},
    {"shape_null",
     entry(R"("dtype":"U8","shape":null,"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "an array for shape", "null"}},
    {"dim_float",
     entry(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"),
     1,
     {"tensor 't'", "shape", "'1.0'"}},
    {"dim_exponent",
     entry(R"("dtype":"U8","shape":[1e3],"data_offsets":[0,1])"),
     1,
     {"tensor 't'", "shape", "'1e3'"}},
    {"dim_minus_zero",
     entry(R"("dtype":"U8","shape":[-0],"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "shape", "'-0'"}},
    {"dim_negative",
     entry(R"("dtype":"U8","shape":[-1],"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "shape", "'-1'"}},
    {"dim_string",
     entry(R"("dtype":"U8","shape":["1"],"data_offsets":[0,1])"),
     1,
     {"tensor 't'", "shape", "a string"}},
    {"dim_nested",
     entry(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"),
     1,
     {"tensor 't'", "shape", "an array"}},
    {"offset_float",
     entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1.0])"),
     1,
     {"tensor 't'", "data_offsets", "'1.0'"}},
    {"offset_above_int64",
     entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,9223372036854775808])"),
     1,
     {"tensor 't'", "data_offsets", "'9223372036854775808'"}},
    {"one_offset",
     entry(R"("dtype":"U8","shape":[0],"data_offsets":[0])"),
     0,
     {"tensor 't'", "two numbers in data_offsets", "got 1"}},
    {"three_offsets",
     entry(R"("dtype":"U8","shape":[0],"data_offsets":[0,0,0])"),
     0,
     {"tensor 't'", "two numbers in data_offsets", "more"}},
    {"metadata_number",
     R"({"__metadata__":{"n":1}})",
     0,
     {"__metadata__", "a string for 'n'", "an integer"}},
    {"metadata_object", R"({"__metadata__":{"n":{}}})", 0, {"__metadata__", "an object"}},
    {"metadata_string", R"({"__metadata__":"x"})", 0, {"__metadata__", "a string"}},
    // R5: shapes.
    {"rank_9",
     entry(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"),
     1,
     {"tensor 't'", "at most 8 dims"}},
    {"dim_above_2_48",
     entry(R"("dtype":"U8","shape":[281474976710657,0],"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "2^48", "281474976710657"}},
    {"product_overflow",
     entry(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "2^61", "[4294967296, 4294967296] of U8"}},
    {"bits_overflow",
     entry(R"("dtype":"F64","shape":[4294967296,134217728],"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "2^61", "of F64"}},
    {"zero_hides_overflow",
     entry(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "2^61"}},
    // R6: ranges.
    {"reversed",
     entry(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"),
     4,
     {"tensor 't'", "data_offsets in order", "[4, 0]"}},
    {"beyond_the_end",
     entry(R"("dtype":"U8","shape":[5],"data_offsets":[0,5])"),
     4,
     {"tensor 't'", "at most 4", "[0, 5]"}},
    {"largest_offset",
     entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,9223372036854775807])"),
     4,
     {"tensor 't'", "at most 4", "9223372036854775807"}},
    {"wrong_size",
     entry(R"("dtype":"BF16","shape":[2,3],"data_offsets":[0,8])"),
     8,
     {"tensor 't'", "12 bytes for [2, 3] of BF16", "got 8"}},
    {"scalar_is_one_element",
     entry(R"("dtype":"F32","shape":[],"data_offsets":[0,0])"),
     0,
     {"tensor 't'", "4 bytes for [] of F32", "got 0"}},
    {"half_a_byte",
     entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"),
     2,
     {"tensor 't'", "whole number of bytes", "[3] of F4"}},
    {"f4_counts_elements",
     entry(R"("dtype":"F4","shape":[2,4],"data_offsets":[0,8])"),
     8,
     {"tensor 't'", "4 bytes for [2, 4] of F4", "got 8"}},
    // R7: tiling.
    {"gap_at_start",
     entry(R"("dtype":"U8","shape":[2],"data_offsets":[2,4])"),
     4,
     {"tensor 't'", "begin at 0 (the start)", "got 2", "a gap of 2"}},
    {"gap",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
     4,
     {"tensor 'b'", "at 2 (the end of 'a')", "got 3", "a gap of 1"}},
    {"overlap",
     R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
     4,
     {"tensor 'b'", "at 3 (the end of 'a')", "got 2", "an overlap of 1"}},
    {"alias",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
     4,
     {"tensor 'b'", "an overlap of 4"}},
    {"empty_inside",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
     4,
     {"tensor 'b'", "an overlap of 2"}},
    {"trailing_bytes",
     entry(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"),
     5,
     {"3 bytes belong to no tensor"}},
    {"data_without_tensors", "{}", 1, {"1 bytes belong to no tensor"}},
    // R8: dtypes.
    {"unknown_dtype",
     entry(R"("dtype":"F8_E3M4","shape":[1],"data_offsets":[0,1])"),
     1,
     {"tensor 't'", "a dtype of the safetensors format", "'F8_E3M4'"}},
    {"dtype_in_lower_case",
     entry(R"("dtype":"bf16","shape":[1],"data_offsets":[0,2])"),
     2,
     {"tensor 't'", "'bf16'"}},
    // R9: names and counts.
    {"empty_name", R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, {"an empty name"}},
    {"long_name", R"({")" + std::string(1025, 'n') + R"(":{}})", 0, {"more than 1024 bytes"}},
    {"nul_in_name", R"({"a\u0000b":{}})", 0, {"tensor 'a\\x00b'", "control character"}},
    {"control_in_name", R"({"a\u001bb":{}})", 0, {"tensor 'a\\x1bb'", "control character"}},
    {"long_metadata",
     R"({"__metadata__":{"k":")" + std::string((16 << 20) + 1, 'v') + R"("}})",
     0,
     {"__metadata__", "at most 16777216 bytes for 'k'"}},
};

INSTANTIATE_TEST_SUITE_P(Table, SafetensorsHeaderRefuses, ::testing::ValuesIn(kHostile),
                         testing::CaseName{});

TEST(SafetensorsHeader, BoundsTheNumberOfMetadataEntries) {
  std::string header = R"({"__metadata__":{)";
  for (int i = 0; i <= 65'536; ++i) header += fmt::format(R"("{}":"",)", i);
  header.back() = '}';
  expect_error(ErrorCode::kCorruptData, {"__metadata__", "at most 65536 entries"},
               [&] { parse(header + "}", 0); });
}

TEST(SafetensorsHeader, BoundsTheNumberOfTensors) {
  std::string header = "{";
  for (int i = 0; i <= 1'000'000; ++i) {
    header += fmt::format(R"("{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},)", i);
  }
  header.back() = '}';
  expect_error(ErrorCode::kCorruptData, {"at most 1000000 tensors"}, [&] { parse(header, 0); });
}

TEST(SafetensorsHeader, KnowsEveryDtypeOfTheFormat) {
  const std::pair<const char*, int> kDtypes[] = {
      {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"BOOL", 8},    {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"I64", 64},    {"U64", 64},
      {"F64", 64},        {"C64", 64}};
  for (const auto& [name, bits] : kDtypes) {
    SCOPED_TRACE(name);
    const auto num_bytes = static_cast<std::size_t>(8 * bits / 8);
    const SafetensorsHeader header =
        parse(fmt::format(R"({{"t":{{"dtype":"{}","shape":[2,4],"data_offsets":[0,{}]}}}})", name,
                          num_bytes),
              num_bytes);
    EXPECT_EQ(dtype_name(header.tensors.at(0).dtype), name);
    EXPECT_EQ(dtype_bits(header.tensors.at(0).dtype), bits);
    EXPECT_EQ(header.tensors.at(0).num_bytes, num_bytes);
  }
}

}  // namespace
}  // namespace fusedmoe
