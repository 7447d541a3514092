#include "fusedmoe/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/handmade_file.h"

namespace fusedmoe {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::safetensors_bytes;
using testing::TempFolder;

constexpr const char* kIndex = "model.safetensors.index.json";

// One U8 tensor.
std::string one_tensor(std::string_view name, std::string_view data,
                       std::string_view padding = "") {
  const std::string header =
      fmt::format(R"({{"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}}{})", name,
                  data.size(), data.size(), padding);
  return safetensors_bytes(header, data);
}

std::string both_tensors() {
  return safetensors_bytes(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})",
      "AABBB");
}

std::string bytes_of(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo* info = checkpoint.find(name);
  if (info == nullptr) return "(none)";
  const TensorView view = checkpoint.view(*info);
  return {static_cast<const char*>(view.data), info->num_bytes};
}

void write_shards(const TempFolder& folder) {
  folder.write("config.json", "{}");
  folder.write("model-00001-of-00002.safetensors", one_tensor("a", "AA"));
  folder.write("model-00002-of-00002.safetensors", one_tensor("b", "BBB"));
}

void write_index(const TempFolder& folder, int total_size = 5) {
  folder.write(kIndex, fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{
    "b":"model-00002-of-00002.safetensors","a":"model-00001-of-00002.safetensors"}}}})",
                                   total_size));
}

TEST(Checkpoint, GivesTheSameTensorsHoweverTheyAreSpread) {
  TempFolder single;
  single.write("config.json", R"({"model_type":"x"})");
  single.write("model.safetensors", both_tensors());
  TempFolder shards;
  write_shards(shards);
  TempFolder indexed;
  write_shards(indexed);
  write_index(indexed);
  TempFolder alone;
  for (const fs::path& path : {single.path(), shards.path(), indexed.path(),
                               alone.write("w.safetensors", both_tensors())}) {
    SCOPED_TRACE(path);
    const Checkpoint checkpoint = Checkpoint::open(path);
    ASSERT_EQ(checkpoint.tensors().size(), 2U);
    EXPECT_EQ(checkpoint.tensors()[0].name, "a");
    EXPECT_EQ(checkpoint.tensors()[1].name, "b");
    EXPECT_EQ(bytes_of(checkpoint, "a"), "AA");
    EXPECT_EQ(bytes_of(checkpoint, "b"), "BBB");
    EXPECT_EQ(checkpoint.find("c"), nullptr);
    EXPECT_THAT(checkpoint.warnings(), IsEmpty());
  }
}

TEST(Checkpoint, ReadsDataAtAnyAlignment) {
  TempFolder folder;
  for (std::size_t padding = 0; padding < 16; ++padding) {
    const auto path =
        folder.write("w.safetensors", one_tensor("t", "01234567", std::string(padding, ' ')));
    EXPECT_EQ(bytes_of(Checkpoint::open(path), "t"), "01234567") << padding;
  }
}

TEST(Checkpoint, KeepsConfigurationMetadataAndSideFiles) {
  TempFolder folder;
  folder.write("config.json", R"({"model_type":"x"})");
  folder.write("quantize_config.json", "{}");
  folder.write("model.safetensors", safetensors_bytes(R"({"__metadata__":{"format":"pt"}})", ""));
  Checkpoint opened = Checkpoint::open(folder.path());
  const Checkpoint checkpoint = std::move(opened);
  EXPECT_EQ(checkpoint.path(), folder.path());
  EXPECT_THAT(checkpoint.files(), ElementsAre("model.safetensors"));
  EXPECT_EQ(checkpoint.config_json(), R"({"model_type":"x"})");
  EXPECT_EQ(checkpoint.side_file("quantize_config.json"), "{}");
  EXPECT_EQ(checkpoint.side_file("absent.json"), "");
  EXPECT_THAT(checkpoint.metadata(0), ElementsAre(std::pair("format", "pt")));
  expect_error(ErrorCode::kInvalidArgument, {"'../x'", "separator"},
               [&] { checkpoint.side_file("../x"); });
}

TEST(Checkpoint, FollowsLinksOutOfTheFolder) {
  TempFolder blobs;
  blobs.write("0123abcd", both_tensors());
  TempFolder snapshot;
  snapshot.write("config.json", "{}");
  fs::create_symlink(blobs.path() / "0123abcd", snapshot.path() / "model.safetensors");
  EXPECT_EQ(bytes_of(Checkpoint::open(snapshot.path()), "b"), "BBB");
  fs::remove(blobs.path() / "0123abcd");
  expect_error(ErrorCode::kNotFound, {"model.safetensors", "a link to", "0123abcd"},
               [&] { Checkpoint::open(snapshot.path()); });
}

TEST(Checkpoint, WarnsOfFilesAndTensorsThatTheIndexDoesNotName) {
  TempFolder folder;
  folder.write("config.json", "{}");
  folder.write("1.safetensors", both_tensors());
  folder.write("consolidated.00.safetensors", both_tensors());
  folder.write(kIndex, R"({"metadata":{"total_size":4.0},"weight_map":{"a":"1.safetensors"}})");
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_THAT(checkpoint.warnings(),
              ElementsAre(HasSubstr("1 of 2 tensors are in the files but not in"),
                          ::testing::AllOf(HasSubstr("4 bytes"), HasSubstr("have 5")),
                          HasSubstr("1 other .safetensors files of the folder are not read: "
                                    "consolidated.00.safetensors")));
  EXPECT_EQ(bytes_of(checkpoint, "b"), "BBB");
}

TEST(Checkpoint, PrefersShardsToConsolidatedFiles) {
  TempFolder folder;
  folder.write("config.json", "{}");
  folder.write("consolidated.safetensors", both_tensors());
  EXPECT_THAT(Checkpoint::open(folder.path()).files(), ElementsAre("consolidated.safetensors"));
  write_shards(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(checkpoint.files().size(), 2U);
  EXPECT_THAT(checkpoint.warnings(), ElementsAre(HasSubstr("consolidated.safetensors")));
}

TEST(Checkpoint, NamesAMissingShardAndWhatItHolds) {
  TempFolder folder;
  write_shards(folder);
  write_index(folder);
  fs::remove(folder.path() / "model-00002-of-00002.safetensors");
  expect_error(ErrorCode::kNotFound,
               {"model-00002-of-00002.safetensors with 1 tensors", "'b'", "1 of 2 shards"},
               [&] { Checkpoint::open(folder.path()); });
}

TEST(Checkpoint, NamesAMissingShardWithoutAnIndex) {
  TempFolder folder;
  write_shards(folder);
  fs::remove(folder.path() / "model-00001-of-00002.safetensors");
  expect_error(ErrorCode::kNotFound, {"model-00001-of-00002.safetensors", "no such file"},
               [&] { Checkpoint::open(folder.path()); });
}

TEST(Checkpoint, RefusesATensorInAnotherFileThanTheIndexSays) {
  TempFolder folder;
  write_shards(folder);
  folder.write(kIndex, R"({"weight_map":{"a":"model-00002-of-00002.safetensors",
                                         "b":"model-00001-of-00002.safetensors"}})");
  expect_error(ErrorCode::kCorruptData,
               {"tensor 'b'", "in model-00001-of-00002", "in model-00002-of-00002"},
               [&] { Checkpoint::open(folder.path()); });
  folder.write(kIndex, R"({"weight_map":{"c":"model-00002-of-00002.safetensors"}})");
  expect_error(ErrorCode::kCorruptData, {"tensor 'c'", "in no file"},
               [&] { Checkpoint::open(folder.path()); });
}

TEST(Checkpoint, RefusesATensorInTwoFiles) {
  TempFolder folder;
  write_shards(folder);
  folder.write("extra.safetensors", one_tensor("b", "XXX"));
  expect_error(ErrorCode::kCorruptData,
               {"tensor 'b'", "extra.safetensors", "model-00002-of-00002.safetensors"},
               [&] { Checkpoint::open(folder.path()); });
}

TEST(Checkpoint, NamesTheFileOfABadHeader) {
  TempFolder folder;
  write_shards(folder);
  const auto path = folder.path() / "model-00002-of-00002.safetensors";
  fs::resize_file(path, fs::file_size(path) - 1);
  expect_error(ErrorCode::kCorruptData, {path.string(), "tensor 'b'", "at most 2", "got [0, 3]"},
               [&] { Checkpoint::open(folder.path()); });
}

TEST(Checkpoint, RefusesWhatIsNotACheckpoint) {
  TempFolder folder;
  expect_error(ErrorCode::kNotFound, {"expected *.safetensors", folder.path().string()},
               [&] { Checkpoint::open(folder.path()); });
  expect_error(ErrorCode::kNotFound, {"absent.safetensors", "No such file"},
               [&] { Checkpoint::open(folder.path() / "absent.safetensors"); });
  for (const char* name : {"w.bin", "w.pt", "w.pth"}) {
    const auto path = folder.write(name, "x");
    const std::vector<std::string> facts = {name, "pickle", "runs code", "convert"};
    expect_error(ErrorCode::kUnsupported, facts, [&] { Checkpoint::open(path); });
    expect_error(ErrorCode::kUnsupported, facts, [&] { Checkpoint::open(folder.path()); });
    fs::remove(path);
  }
  expect_error(ErrorCode::kUnsupported, {"w.gguf", "GGUF"},
               [&] { Checkpoint::open(folder.write("w.gguf", "GGUF")); });
  folder.write("model.safetensors", both_tensors());
  expect_error(ErrorCode::kNotFound, {"config.json"}, [&] { Checkpoint::open(folder.path()); });
  expect_error(ErrorCode::kCorruptData, {"e.safetensors", "at least 8 bytes, got 0"},
               [&] { Checkpoint::open(folder.write("e.safetensors", "")); });
}

TEST(Checkpoint, RefusesAPipeWithoutWaitingForIt) {
  TempFolder folder;
  const fs::path path = folder.path() / "p.safetensors";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_error(ErrorCode::kInvalidArgument, {"p.safetensors", "regular file"},
               [&] { Checkpoint::open(path); });
}

TEST(Checkpoint, NoticesATruncatedFileBeforeItIsTouched) {
  TempFolder folder;
  const auto path = folder.write("w.safetensors", both_tensors());
  const Checkpoint checkpoint = Checkpoint::open(path);
  fs::resize_file(path, 20);
  expect_error(ErrorCode::kCorruptData, {"w.safetensors", "got 20", "changed in use"},
               [&] { checkpoint.view(*checkpoint.find("a")); });
}

TEST(Checkpoint, RefusesForeignEntries) {
  TempFolder folder;
  const Checkpoint checkpoint = Checkpoint::open(folder.write("w.safetensors", both_tensors()));
  const TensorInfo good = *checkpoint.find("b");
  TensorInfo info = good;
  info.file = 1;
  expect_error(ErrorCode::kInvalidArgument, {"'b'", "got 1"}, [&] { checkpoint.view(info); });
  info = good;
  info.offset += 1;
  expect_error(ErrorCode::kInvalidArgument, {"'b'"}, [&] { checkpoint.view(info); });
  info = good;
  info.shape = Shape{1 << 20};
  expect_error(ErrorCode::kInvalidArgument, {"'b'"}, [&] { checkpoint.view(info); });
  info = good;
  info.num_bytes = ~std::uint64_t{0};
  expect_error(ErrorCode::kInvalidArgument, {"'b'"}, [&] { checkpoint.view(info); });
}

TEST(Checkpoint, OpensEveryGoldenFolder) {
  const fs::path golden = fs::path(FUSEDMOE_TEST_DATA) / "golden";
  int num_folders = 0;
  for (const auto& folder : fs::directory_iterator(golden)) {
    if (!folder.is_directory()) continue;
    SCOPED_TRACE(folder.path());
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    EXPECT_FALSE(checkpoint.tensors().empty());
    EXPECT_FALSE(checkpoint.config_json().empty());
    EXPECT_FALSE(Checkpoint::open(folder.path() / "golden.safetensors").metadata(0).empty());
    ++num_folders;
  }
  EXPECT_EQ(num_folders, 33);
}

}  // namespace
}  // namespace fusedmoe
