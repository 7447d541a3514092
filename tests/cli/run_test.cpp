#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli_process.h"
#include "scratch_folder.h"

namespace fusedmoe::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::vector<T> values_of(const Checkpoint& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<T> values(info->num_bytes / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), file.view(*info).data, info->num_bytes);
  return values;
}

double worst_row_error(const std::vector<float>& got, const std::vector<float>& expected,
                       std::size_t width) {
  EXPECT_EQ(got.size(), expected.size());
  double worst = 0.0;
  for (std::size_t row = 0; row + width <= expected.size(); row += width) {
    double difference = 0.0;
    double scale = 1e-30;
    for (std::size_t i = row; i < row + width; ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(got[i]) - expected[i]));
      scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
    }
    worst = std::max(worst, difference / scale);
  }
  return worst;
}

// One golden layer, its recording, and room for input and output files.
class RunCommand : public ::testing::Test {
 protected:
  explicit RunCommand(const std::string& family = "qwen3_moe", int layer = 0)
      : family_(family),
        layer_(layer),
        golden_(Checkpoint::open(golden_folder(family) / "golden.safetensors")) {}

  TensorView recorded(const std::string& name) const {
    return golden_.view(*golden_.find("layers." + std::to_string(layer_) + "." + name));
  }
  std::vector<float> recorded_floats(const std::string& name) const {
    return values_of<float>(golden_, "layers." + std::to_string(layer_) + "." + name);
  }
  void write_input(const std::vector<NamedTensor>& tensors) const {
    write_safetensors(folder_.file("x.safetensors"), tensors);
  }
  CliResult run(const std::vector<std::string>& more = {}, const CliLimits& limits = {}) const {
    std::vector<std::string> arguments = {
        "run",     golden_folder(family_).string(), "--layer",  std::to_string(layer_),
        "--input", folder_.file("x.safetensors"),   "--output", folder_.file("y.safetensors")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments, limits);
  }
  Checkpoint output() const { return Checkpoint::open(folder_.path() / "y.safetensors"); }
  std::size_t hidden_size() const { return static_cast<std::size_t>(recorded("input").shape[1]); }

  std::string family_;
  int layer_;
  Checkpoint golden_;
  ScratchFolder folder_;
};

TEST_F(RunCommand, F32AgreesWithTheRecording) {
  write_input({{"hidden_states", recorded("input")}});
  const CliResult result = run();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Checkpoint file = output();
  EXPECT_LE(worst_row_error(values_of<float>(file, "hidden_states"), recorded_floats("output"),
                            hidden_size()),
            1e-5);
  EXPECT_LE(worst_row_error(values_of<float>(file, "router_logits"),
                            recorded_floats("router_logits"), 16),
            1e-5);
  EXPECT_EQ(file.find("topk_ids")->shape, (Shape{37, 8}));
  EXPECT_EQ(file.find("topk_ids")->dtype, DType::kI32);
  EXPECT_EQ(file.find("topk_weights")->shape, (Shape{37, 8}));
  std::int64_t slots = 0;
  for (const std::int64_t count : values_of<std::int64_t>(file, "tokens_per_expert"))
    slots += count;
  EXPECT_EQ(slots, 37 * 8);
}

TEST_F(RunCommand, DtypeFollowsTheInputOrTheOption) {
  std::vector<std::byte> half(37 * 64 * 2);
  const MutableTensorView bf16{half.data(), DType::kBF16, {37, 64}, 0};
  convert(recorded("input"), bf16);
  write_input({{"hidden_states", bf16}});
  ASSERT_EQ(run().exit_code, 0);
  EXPECT_EQ(output().find("hidden_states")->dtype, DType::kBF16);
  ASSERT_EQ(run({"--dtype", "f32"}).exit_code, 0);
  EXPECT_EQ(output().find("hidden_states")->dtype, DType::kF32);
  ASSERT_EQ(run({"--dtype", "f16"}).exit_code, 0);
  EXPECT_EQ(output().find("hidden_states")->dtype, DType::kF16);
}

TEST_F(RunCommand, GivenLogitsReplaceTheRouter) {
  write_input({{"hidden_states", recorded("input")}, {"router_logits", recorded("router_logits")}});
  ASSERT_EQ(run().exit_code, 0);
  const Checkpoint file = output();
  EXPECT_EQ(values_of<float>(file, "router_logits"), recorded_floats("router_logits"));
  EXPECT_LE(worst_row_error(values_of<float>(file, "hidden_states"), recorded_floats("output"),
                            hidden_size()),
            1e-5);
}

TEST_F(RunCommand, GivenChoicesReplaceTheRouter) {
  write_input({{"hidden_states", recorded("input")},
               {"topk_ids", recorded("topk_ids")},
               {"topk_weights", recorded("topk_weights")}});
  ASSERT_EQ(run().exit_code, 0);
  const Checkpoint file = output();
  EXPECT_EQ(values_of<float>(file, "topk_weights"), recorded_floats("topk_weights"));
  EXPECT_LE(worst_row_error(values_of<float>(file, "hidden_states"), recorded_floats("output"),
                            hidden_size()),
            1e-5);
}

TEST_F(RunCommand, IdsOutsideTheExpertsContributeNothingAndAreTold) {
  const std::vector<std::int32_t> ids(37 * 8, 1000);
  const std::vector<float> weights(37 * 8, 0.125F);
  write_input({{"hidden_states", recorded("input")},
               {"topk_ids", {ids.data(), DType::kI32, {37, 8}, 0}},
               {"topk_weights", {weights.data(), DType::kF32, {37, 8}, 0}}});
  const CliResult result = run();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("296 of the given topk_ids name no expert"));
  for (const float value : values_of<float>(output(), "hidden_states")) ASSERT_EQ(value, 0.0F);
}

TEST_F(RunCommand, IdsWithoutWeightsAreRefused) {
  write_input({{"hidden_states", recorded("input")}, {"topk_ids", recorded("topk_ids")}});
  const CliResult result = run();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("topk_ids with topk_weights"));
}

TEST_F(RunCommand, ZeroTokensGiveAnEmptyResult) {
  write_input({{"hidden_states", {nullptr, DType::kF32, {0, 64}, 0}}});
  const CliResult result = run();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(output().find("hidden_states")->shape, (Shape{0, 64}));
  EXPECT_EQ(output().find("topk_ids")->shape, (Shape{0, 8}));
}

TEST_F(RunCommand, AWrongShapeSaysExpectedAndGot) {
  const std::vector<float> values(2 * 60);
  write_input({{"hidden_states", {values.data(), DType::kF32, {2, 60}, 0}}});
  const CliResult result = run();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("expected [num_tokens, 64]"));
  EXPECT_THAT(result.err, HasSubstr("got [2, 60]"));
  EXPECT_THAT(folder_.names(), ElementsAre("x.safetensors"));
}

TEST_F(RunCommand, AMissingInputTensorIsNotFound) {
  const float value = 0.0F;
  write_input({{"states", {&value, DType::kF32, {1}, 0}}});
  const CliResult result = run();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("hidden_states"));
  EXPECT_THAT(result.err, HasSubstr("states"));
}

TEST_F(RunCommand, AWrongLayerListsTheMoeLayers) {
  write_input({{"hidden_states", recorded("input")}});
  layer_ = 7;
  const CliResult result = run();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("expected an MoE layer (0, 1), got 7"));
}

TEST_F(RunCommand, AFullDiskLeavesTheFormerFileAndNothingElse) {
  write_input({{"hidden_states", recorded("input")}});
  ASSERT_EQ(run().exit_code, 0);
  const std::vector<float> former = values_of<float>(output(), "hidden_states");
  const CliResult result = run({}, {.max_file_bytes = 4096, .environment = {}});
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_THAT(folder_.names(), ElementsAre("x.safetensors", "y.safetensors"));
  EXPECT_EQ(values_of<float>(output(), "hidden_states"), former);
}

TEST_F(RunCommand, ThreadsAndBatchChangeNoBit) {
  write_input({{"hidden_states", recorded("input")}});
  ASSERT_EQ(run({"--threads", "1"}).exit_code, 0);
  const std::vector<float> one = values_of<float>(output(), "hidden_states");
  ASSERT_EQ(run({"--threads", "3"}).exit_code, 0);
  EXPECT_EQ(values_of<float>(output(), "hidden_states"), one);
  TensorView first_row = recorded("input");
  first_row.shape = {1, 64};
  write_input({{"hidden_states", first_row}});
  ASSERT_EQ(run().exit_code, 0);
  EXPECT_EQ(values_of<float>(output(), "hidden_states"),
            std::vector<float>(one.begin(), one.begin() + 64));
}

class RunHashLayer : public RunCommand {
 protected:
  RunHashLayer() : RunCommand("deepseek_v4", 0) {}
};

TEST_F(RunHashLayer, NeedsTokenIds) {
  write_input({{"hidden_states", recorded("input")}});
  const CliResult without = run();
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("input_ids"));
  write_input({{"hidden_states", recorded("input")}, {"input_ids", recorded("input_ids")}});
  ASSERT_EQ(run().exit_code, 0);
  EXPECT_LE(worst_row_error(values_of<float>(output(), "hidden_states"), recorded_floats("output"),
                            hidden_size()),
            1e-5);
}

}  // namespace
}  // namespace fusedmoe::test
