// Checkpoints that are not there or not whole: one clear message and the documented exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli_process.h"
#include "scratch_folder.h"

namespace fusedmoe::test {
namespace {

using ::testing::HasSubstr;

// Every command that opens a checkpoint refuses it alike.
void expect_refused(const std::string& dir, int exit_code, const std::string& error_code,
                    const std::vector<std::string>& in_message) {
  for (const char* command : {"inspect", "verify"}) {
    const CliResult result = run_cli({command, dir, "--json"});
    EXPECT_EQ(result.exit_code, exit_code) << command << ": " << result.err;
    EXPECT_EQ(result.json()["error"]["code"], error_code);
    EXPECT_THAT(result.err, ::testing::StartsWith("fusedmoe: error: ["));
    for (const std::string& part : in_message) EXPECT_THAT(result.err, HasSubstr(part));
  }
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(BadCheckpoint, NoSuchPath) {
  expect_refused("/no/such/folder", 3, "not_found", {"/no/such/folder"});
}

TEST(BadCheckpoint, AFolderWithoutConfig) {
  const ScratchFolder folder;
  copy_golden("mixtral", folder);
  std::filesystem::remove(folder.path() / "config.json");
  expect_refused(folder.path().string(), 3, "not_found", {"config.json"});
}

TEST(BadCheckpoint, ATruncatedFile) {
  const ScratchFolder folder;
  copy_golden("mixtral", folder);
  const auto file = folder.path() / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 100);
  expect_refused(folder.path().string(), 4, "corrupt_data", {"model.safetensors"});
}

TEST(BadCheckpoint, AnEmptyFile) {
  const ScratchFolder folder;
  copy_golden("mixtral", folder);
  std::filesystem::resize_file(folder.path() / "model.safetensors", 0);
  expect_refused(folder.path().string(), 4, "corrupt_data", {"model.safetensors"});
}

TEST(BadCheckpoint, AMissingShard) {
  const ScratchFolder folder;
  copy_golden("mixtral", folder);
  std::ofstream(folder.file("model.safetensors.index.json"))
      << R"({"metadata": {}, "weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}})";
  std::filesystem::remove(folder.path() / "model.safetensors");
  expect_refused(folder.path().string(), 3, "not_found", {"model-00002-of-00002.safetensors"});
}

TEST(BadCheckpoint, ConfigIsNotJson) {
  const ScratchFolder folder;
  copy_golden("mixtral", folder);
  std::ofstream(folder.file("config.json")) << "{\"model_type\": ";
  expect_refused(folder.path().string(), 4, "corrupt_data", {"config.json"});
}

TEST(BadCheckpoint, AnUnknownFamilyNamesTheNearest) {
  const ScratchFolder folder;
  copy_golden("mixtral", folder);
  std::string config = text_of(folder.file("config.json"));
  const std::string word = "\"mixtral\"";
  ASSERT_NE(config.find(word), std::string::npos);
  config.replace(config.find(word), word.size(), "\"mixtrol\"");
  std::ofstream(folder.file("config.json")) << config;
  expect_refused(folder.path().string(), 5, "unsupported", {"mixtrol", "mixtral"});
}

TEST(BadCheckpoint, AFamilyFileThatIsNotThere) {
  const CliResult result = run_cli(
      {"inspect", golden_folder("mixtral").string(), "--family", "/no/such.json", "--json"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("/no/such.json"));
}

TEST(BadOutput, AFolderThatIsNotThere) {
  const ScratchFolder folder;
  const Checkpoint golden = Checkpoint::open(golden_folder("qwen3_moe") / "golden.safetensors");
  write_safetensors(
      folder.file("x.safetensors"),
      std::vector<NamedTensor>{{"hidden_states", golden.view(*golden.find("layers.0.input"))}});
  const CliResult result = run_cli({"run", golden_folder("qwen3_moe").string(), "--layer", "0",
                                    "--input", folder.file("x.safetensors"), "--output",
                                    folder.file("no/such/folder/y.safetensors")});
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_THAT(result.err, HasSubstr("y.safetensors"));
}

TEST(BadOutput, AFullStdoutIsAnError) {
  const CliResult result =
      run_process("sh", {"-c", std::string(FUSEDMOE_CLI_PROGRAM) + " kernels > /dev/full"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.err, HasSubstr("stdout"));
}

}  // namespace
}  // namespace fusedmoe::test
