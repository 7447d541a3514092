#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cli_process.h"
#include "scratch_folder.h"

namespace fusedmoe::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// What a failed verdict says, for the test's own message.
std::string story(const CliResult& result) { return result.out.substr(0, 4000) + result.err; }

class VerifyGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(VerifyGolden, AgreesWithTheRecording) {
  const CliResult result = run_cli({"verify", golden_folder(GetParam()).string(), "--json"});
  ASSERT_EQ(result.exit_code, 0) << story(result);
  const nlohmann::json report = result.json();
  EXPECT_TRUE(report["ok"].get<bool>());
  std::size_t num_recorded = 0;
  for (const auto& layer : report["layers"]) {
    EXPECT_TRUE(layer["missing"].empty());
    EXPECT_TRUE(layer["unused"].empty());
    EXPECT_LE(layer["peak_load_bytes"].get<std::int64_t>(),
              layer["allowed_load_bytes"].get<std::int64_t>());
    if (layer["max_row_error"].is_null()) continue;
    ++num_recorded;
    EXPECT_LE(layer["max_row_error"].get<double>(), 1e-5);
    EXPECT_GE(layer["checks"].size(), 3U);  // output, logits, choices
  }
  EXPECT_GE(num_recorded, 1U);
}

// A quantization block is never cut, and these small experts are one block wide: experts are split.
bool is_quantized(const std::string& family) {
  return family.starts_with("fp8_") || family.starts_with("mxfp4_");
}

TEST_P(VerifyGolden, PartsOfAGridAddUpToTheRecording) {
  const std::string tp_size = is_quantized(GetParam()) ? "1" : "2";
  const CliResult result = run_cli(
      {"verify", golden_folder(GetParam()).string(), "--tp", tp_size, "--ep", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << story(result);
  const auto report = result.json();
  for (const auto& layer : report["layers"]) {
    if (layer["max_row_error"].is_null()) continue;
    EXPECT_LE(layer["max_row_error"].get<double>(), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, VerifyGolden, ::testing::ValuesIn(golden_families()),
                         [](const auto& family) { return family.param; });

TEST(Verify, ShowsKernelSpeedAndLoad) {
  const CliResult result =
      run_cli({"verify", golden_folder("trained_qwen3_moe").string(), "--show"},
              {.environment = {{"LC_ALL", "C"}}});
  ASSERT_EQ(result.exit_code, 0) << story(result);
  for (const char* word :
       {"kernel", "tokens/s", "GB/s", "% of the memory floor", "busiest expert"}) {
    EXPECT_THAT(result.out, HasSubstr(word));
  }
  for (const char c : result.out) ASSERT_LT(static_cast<unsigned char>(c), 0x80) << "not ASCII";
}

TEST(Verify, LayerChoosesOne) {
  const nlohmann::json report =
      run_cli({"verify", golden_folder("trained_qwen3_moe").string(), "--layer", "2", "--json"})
          .json();
  ASSERT_EQ(report["layers"].size(), 1U);
  EXPECT_EQ(report["layers"][0]["layer"], 2);
}

TEST(Verify, NamesAMissingTensor) {
  const ScratchFolder folder;
  copy_golden("qwen3_moe", folder);
  const std::string gone = "model.layers.1.mlp.experts.3.up_proj.weight";
  edit_tensors(folder.file("model.safetensors"), [&](std::vector<NamedTensor>& tensors) {
    ASSERT_EQ(std::erase_if(tensors, [&](const NamedTensor& t) { return t.name == gone; }), 1U);
  });
  const CliResult result = run_cli({"verify", folder.path().string(), "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const nlohmann::json report = result.json();
  EXPECT_FALSE(report["ok"].get<bool>());
  EXPECT_TRUE(report["layers"][0]["ok"].get<bool>());
  EXPECT_THAT(report["layers"][1]["missing"].get<std::vector<std::string>>(), Contains(gone));
  EXPECT_THAT(run_cli({"verify", folder.path().string()}).out, HasSubstr(gone));
}

TEST(Verify, NamesAnUnusedTensor) {
  const ScratchFolder folder;
  copy_golden("qwen3_moe", folder);
  const float value = 1.0F;
  const std::string stray = "model.layers.0.mlp.experts.3.extra";
  edit_tensors(folder.file("model.safetensors"), [&](std::vector<NamedTensor>& tensors) {
    tensors.push_back({stray, {&value, DType::kF32, {1}, 0}});
  });
  const CliResult result = run_cli({"verify", folder.path().string(), "--json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.json()["layers"][0]["unused"].get<std::vector<std::string>>(),
              Contains(stray));
}

TEST(Verify, FailsWhenAWeightIsWrong) {
  const ScratchFolder folder;
  copy_golden("qwen3_moe", folder);
  std::vector<std::byte> zeros;
  edit_tensors(folder.file("model.safetensors"), [&](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& tensor : tensors) {
      if (tensor.name != "model.layers.0.mlp.experts.0.down_proj.weight") continue;
      zeros.resize(static_cast<std::size_t>(tensor.tensor.shape.num_elements()) * 2);
      tensor.tensor.data = zeros.data();
    }
  });
  ASSERT_FALSE(zeros.empty());
  const CliResult result = run_cli({"verify", folder.path().string(), "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const nlohmann::json layers = result.json()["layers"];
  EXPECT_GT(layers[0]["max_row_error"].get<double>(), 1e-5);
  EXPECT_TRUE(layers[1]["ok"].get<bool>());
}

TEST(Verify, RefusesAGridThatCutsAQuantizationBlock) {
  const CliResult result =
      run_cli({"verify", golden_folder("fp8_qwen3_moe").string(), "--tp", "2", "--json"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.json()["error"]["message"].get<std::string>(), HasSubstr("block"));
}

TEST(Verify, ToleranceIsTheUsersToChoose) {
  const CliResult result =
      run_cli({"verify", golden_folder("mixtral").string(), "--tolerance", "0", "--json"});
  EXPECT_EQ(result.exit_code, 1);  // f32 sums of two programs never agree to the last bit
}

TEST(Verify, WithoutARecordingReportsCoverage) {
  const ScratchFolder folder;
  copy_golden("mixtral", folder);
  std::filesystem::remove(folder.path() / "golden.safetensors");
  const CliResult result = run_cli({"verify", folder.path().string(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << story(result);
  const auto report = result.json();
  for (const auto& layer : report["layers"]) {
    EXPECT_TRUE(layer["max_row_error"].is_null());
    EXPECT_GT(layer["cells"].get<std::int64_t>(), 0);
  }
}

}  // namespace
}  // namespace fusedmoe::test
