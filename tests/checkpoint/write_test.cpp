#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <numeric>

#include "checkpoint/handmade_file.h"
#include "fusedmoe/checkpoint.h"

namespace fusedmoe {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::IsEmpty;
using testing::TempFolder;

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(WriteSafetensors, RoundTrips) {
  std::vector<std::uint8_t> data(256);
  std::iota(data.begin(), data.end(), std::uint8_t{0});
  const std::vector<NamedTensor> tensors = {
      {"bytes", {data.data(), DType::kU8, {3}}},
      {"halves", {data.data() + 1, DType::kBF16, {2, 3}}},
      {"nibbles", {data.data() + 2, DType::kF4, {2, 8}}},
      {"scalar", {data.data() + 3, DType::kF64, {}}},
      {"empty", {nullptr, DType::kF32, {0, 5}}},
      {"strided by its own width", {data.data(), DType::kI32, {2, 3}, 3}},
      {"na\"me \xC3\xA4", {data.data() + 4, DType::kF8E4M3, {4}}},
  };
  const std::vector<std::pair<std::string, std::string>> metadata = {{"k", "v\n\"\xE2\x82\xAC"},
                                                                     {"layers", "0,1"}};
  TempFolder folder;
  const fs::path path = folder.path() / "out.safetensors";
  write_safetensors(path, tensors, metadata);
  EXPECT_THAT(folder.names(), ElementsAre("out.safetensors"));

  const Checkpoint checkpoint = Checkpoint::open(path);
  EXPECT_THAT(checkpoint.metadata(0), ::testing::ElementsAreArray(metadata));
  ASSERT_EQ(checkpoint.tensors().size(), tensors.size());
  for (const NamedTensor& written : tensors) {
    SCOPED_TRACE(written.name);
    const TensorInfo* info = checkpoint.find(written.name);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->dtype, written.tensor.dtype);
    EXPECT_EQ(info->shape, written.tensor.shape);
    const auto element_bytes = static_cast<std::uint64_t>(std::max(8, dtype_bits(info->dtype)) / 8);
    EXPECT_EQ(info->offset % element_bytes, 0U);
    if (info->num_bytes > 0) {
      EXPECT_EQ(std::memcmp(checkpoint.view(*info).data, written.tensor.data, info->num_bytes), 0);
    }
  }
}

TEST(WriteSafetensors, BytesDoNotDependOnTheOrderGiven) {
  const float data[3] = {1, 2, 3};
  std::vector<NamedTensor> tensors = {{"a", {data, DType::kF32, {3}}},
                                      {"b", {data, DType::kF32, {2}}},
                                      {"c", {data, DType::kU8, {2}}}};
  TempFolder folder;
  write_safetensors(folder.path() / "1", tensors);
  std::swap(tensors[0], tensors[2]);
  write_safetensors(folder.path() / "2", tensors);
  EXPECT_EQ(read_all(folder.path() / "1"), read_all(folder.path() / "2"));
}

struct BadTensors {
  const char* name;
  std::vector<NamedTensor> tensors;
  std::vector<std::string> facts;
};

class WriteSafetensorsRefuses : public ::testing::TestWithParam<BadTensors> {};

TEST_P(WriteSafetensorsRefuses, AndLeavesNothing) {
  TempFolder folder;
  expect_error(ErrorCode::kInvalidArgument, GetParam().facts,
               [&] { write_safetensors(folder.path() / "out", GetParam().tensors); });
  EXPECT_THAT(folder.names(), IsEmpty());
}

constexpr std::uint8_t kByte = 0;
INSTANTIATE_TEST_SUITE_P(
    Table, WriteSafetensorsRefuses,
    ::testing::Values(
        BadTensors{"twice",
                   {{"t", {&kByte, DType::kU8, {1}}}, {"t", {&kByte, DType::kU8, {1}}}},
                   {"'t'", "twice"}},
        BadTensors{"no_name", {{"", {&kByte, DType::kU8, {1}}}}, {"an empty name"}},
        BadTensors{"control", {{"a\nb", {&kByte, DType::kU8, {1}}}}, {"'a\\x0ab'", "control"}},
        BadTensors{"not_utf8", {{"a\xFF", {&kByte, DType::kU8, {1}}}}, {"UTF-8"}},
        BadTensors{"reserved", {{"__metadata__", {&kByte, DType::kU8, {1}}}}, {"own key"}},
        BadTensors{"half_a_byte", {{"t", {&kByte, DType::kF4, {1}}}}, {"'t'", "[1] of F4"}},
        BadTensors{"negative", {{"t", {&kByte, DType::kU8, {-1}}}}, {"'t'", "[-1] of U8"}},
        BadTensors{"strided", {{"t", {&kByte, DType::kU8, {2, 2}, 3}}}, {"'t'", "row stride of 3"}},
        BadTensors{"null", {{"t", {nullptr, DType::kU8, {2}}}}, {"'t'", "null pointer"}}),
    testing::CaseName{});

TEST(WriteTextFile, ReplacesInOneStep) {
  TempFolder folder;
  const auto path = folder.write("r.json", "old");
  write_text_file(path, "new text");
  EXPECT_EQ(read_all(path), "new text");
  EXPECT_THAT(folder.names(), ElementsAre("r.json"));
}

TEST(WriteTextFile, NamesAMissingFolder) {
  TempFolder folder;
  expect_error(ErrorCode::kDevice, {"absent/r.json", "No such file"},
               [&] { write_text_file(folder.path() / "absent" / "r.json", "x"); });
}

TEST(WriteTextFile, RefusesFoldersAndDevices) {
  TempFolder folder;
  for (const fs::path& path : {folder.path(), fs::path("/dev/null")}) {
    expect_error(ErrorCode::kInvalidArgument, {path.string(), "regular file"},
                 [&] { write_text_file(path, "x"); });
  }
}

// A limit on file sizes fails a write in its middle, as a full disk does.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit old_{};
};

TEST(WriteSafetensors, AFailedWriteLeavesTheOldFileAndNoOther) {
  const std::vector<float> data(100'000, 1.0F);
  const std::vector<NamedTensor> tensors = {{"t", {data.data(), DType::kF32, {100'000}}}};
  TempFolder folder;
  const auto path = folder.write("out.safetensors", "old");
  {
    const FileSizeLimit limit(64 * 1024);
    expect_error(ErrorCode::kDevice, {"out.safetensors", "expected to write", "File too large"},
                 [&] { write_safetensors(path, tensors); });
  }
  EXPECT_THAT(folder.names(), ElementsAre("out.safetensors"));
  EXPECT_EQ(read_all(path), "old");
}

}  // namespace
}  // namespace fusedmoe
