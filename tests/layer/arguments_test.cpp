// Wrong arguments: an error of the right kind whose text has the facts, and nothing written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "fusedmoe/error.h"
#include "reference/planned_layer.h"

namespace fusedmoe::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kTokens = 6;

FusedMoEConfig base() {
  FusedMoEConfig config;
  config.num_experts = 4;
  config.hidden_size = 16;
  config.intermediate_size = 8;
  config.top_k = 2;
  config.layer_id = 41;
  config.prefix = "model.layers.41.mlp.";
  return config;
}

std::string message_of(const std::function<void()>& call,
                       ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

// A call that is right, for tests to spoil in one place.
struct Call {
  LayerData data = random_layer(base(), 1);
  PlannedLayer planned{data, kTokens};
  BatchData batch = random_batch(base(), {.num_tokens = kTokens}, 2);
  std::vector<std::byte> out_bytes = std::vector<std::byte>(kTokens * 16 * 4, std::byte{0x55});
  TensorView hidden = batch.hidden_view();
  TopKView topk = batch.topk();
  MutableTensorView out{out_bytes.data(), DType::kBF16, {kTokens, 16}};

  void run(Workspace& workspace) { planned.layer().forward(hidden, topk, out, workspace); }
  void run() { run(planned.workspace()); }
  std::string message() {
    std::string text = message_of([this] { run(); });
    EXPECT_EQ(out_bytes, std::vector<std::byte>(out_bytes.size(), std::byte{0x55})) << "written";
    return text;
  }
};

TEST(Arguments, TheCallThatOthersSpoilIsRight) {
  Call call;
  EXPECT_NO_THROW(call.run());
}

TEST(Arguments, HiddenStates) {
  Call call;
  call.hidden.shape = {kTokens, 17};
  EXPECT_THAT(call.message(), AllOf(HasSubstr("[layer]"), HasSubstr("hidden_states"),
                                    HasSubstr("16"), HasSubstr("[6, 17]"), HasSubstr("41")));
  call.hidden = call.batch.hidden_view();
  call.hidden.dtype = DType::kF32;
  EXPECT_THAT(call.message(),
              AllOf(HasSubstr("hidden_states"), HasSubstr("BF16"), HasSubstr("F32")));
  call.hidden = call.batch.hidden_view();
  call.hidden.shape = {kTokens * 16};
  EXPECT_THAT(call.message(), AllOf(HasSubstr("hidden_states"), HasSubstr("[96]")));
  call.hidden = call.batch.hidden_view();
  call.hidden.row_stride = 15;
  EXPECT_THAT(call.message(),
              AllOf(HasSubstr("hidden_states"), HasSubstr("stride"), HasSubstr("15")));
  call.hidden = call.batch.hidden_view();
  call.hidden.data = nullptr;
  EXPECT_THAT(call.message(), HasSubstr("hidden_states"));
}

TEST(Arguments, TopK) {
  Call call;
  call.topk.topk_ids.shape = {kTokens, 3};
  EXPECT_THAT(call.message(),
              AllOf(HasSubstr("topk_ids"), HasSubstr("[6, 2]"), HasSubstr("[6, 3]")));
  call.topk = call.batch.topk();
  call.topk.topk_ids.shape = {kTokens * 2};  // B50: flattened
  EXPECT_THAT(call.message(), AllOf(HasSubstr("topk_ids"), HasSubstr("[12]")));
  call.topk = call.batch.topk();
  call.topk.topk_ids.dtype = DType::kF32;
  EXPECT_THAT(call.message(), AllOf(HasSubstr("topk_ids"), HasSubstr("I32"), HasSubstr("F32")));
  call.topk = call.batch.topk();
  call.topk.topk_weights.shape = {kTokens - 1, 2};
  EXPECT_THAT(call.message(),
              AllOf(HasSubstr("topk_weights"), HasSubstr("[6, 2]"), HasSubstr("[5, 2]")));
  call.topk = call.batch.topk();
  call.topk.topk_weights.dtype = DType::kBF16;
  EXPECT_THAT(call.message(),
              AllOf(HasSubstr("topk_weights"), HasSubstr("F32"), HasSubstr("BF16")));
  call.topk = call.batch.topk();
  call.topk.topk_ids.data = nullptr;
  EXPECT_THAT(call.message(), HasSubstr("topk_ids"));
  call.topk = call.batch.topk();
  call.topk.topk_weights.data = nullptr;
  EXPECT_THAT(call.message(), HasSubstr("topk_weights"));
}

TEST(Arguments, Out) {
  Call call;
  call.out.shape = {kTokens, 2, 16};
  EXPECT_THAT(call.message(),
              AllOf(HasSubstr("out"), HasSubstr("[6, 16]"), HasSubstr("[6, 2, 16]")));
  call.out.shape = {kTokens, 16};
  call.out.dtype = DType::kF32;
  EXPECT_THAT(call.message(), AllOf(HasSubstr("out"), HasSubstr("BF16"), HasSubstr("F32")));
  call.out = {nullptr, DType::kBF16, {kTokens, 16}};
  EXPECT_THAT(call.message(), HasSubstr("out"));
  // The input itself, and memory that begins in the middle of it.
  for (const std::int64_t offset : {0, 64}) {
    call.out = {call.batch.hidden.data() + offset, DType::kBF16, {kTokens, 16}};
    EXPECT_THAT(call.message(), AllOf(HasSubstr("out"), HasSubstr("inplace")));
  }
}

TEST(Arguments, B65_more_tokens_than_planned) {
  Call call;
  const BatchData longer = random_batch(base(), {.num_tokens = kTokens + 1}, 3);
  call.hidden = longer.hidden_view();
  call.topk = longer.topk();
  call.out.shape = {kTokens + 1, 16};
  EXPECT_THAT(call.message(), AllOf(HasSubstr("at most 6"), HasSubstr("got 7"), HasSubstr("plan")));
}

TEST(Arguments, WorkspaceTooSmall) {
  Call call;
  const std::size_t needed = call.planned.layer().plan_report().workspace_bytes;
  Workspace small(needed - 1);
  EXPECT_THAT(message_of([&] { call.run(small); }),
              AllOf(HasSubstr("workspace"), HasSubstr(std::to_string(needed)),
                    HasSubstr(std::to_string(needed - 1))));
  alignas(64) static std::byte memory[192];
  EXPECT_THAT(message_of([] { Workspace w(std::span<std::byte>(memory, 192).subspan(8, 128)); }),
              AllOf(HasSubstr("workspace"), HasSubstr("64")));
}

TEST(Arguments, WorkspaceInUseIsDetected) {
  Call call;
  const Workspace::Use use(call.planned.workspace());
  EXPECT_THAT(message_of([&] { call.run(); }), AllOf(HasSubstr("workspace"), HasSubstr("two")));
}

TEST(Arguments, WorkspaceIsFreeAgainAfterAnError) {
  Call call;
  Workspace small(64);
  EXPECT_THROW(call.run(small), Error);
  EXPECT_NO_THROW(Workspace::Use{small});
}

TEST(Arguments, LifeCycle) {
  const LayerData data = random_layer(base(), 1);
  Call call;
  FusedMoE layer(base());
  const auto forward = [&] {
    layer.forward(call.hidden, call.topk, call.out, call.planned.workspace());
  };
  EXPECT_THAT(message_of(forward), AllOf(HasSubstr("plan"), HasSubstr("model.layers.41.mlp.")));
  EXPECT_THAT(message_of([&] { layer.load_expert(0, ExpertSlice(data, 0).tensors()); }),
              HasSubstr("plan"));
  EXPECT_THAT(message_of([&] { (void)layer.plan_report(); }), HasSubstr("plan"));
  layer.plan({.max_num_tokens = kTokens});
  EXPECT_EQ(layer.missing_experts(), (std::vector<std::int64_t>{0, 1, 2, 3}));
  layer.load_expert(2, ExpertSlice(data, 2).tensors());
  EXPECT_EQ(layer.missing_experts(), (std::vector<std::int64_t>{0, 1, 3}));
  EXPECT_THAT(message_of(forward), AllOf(HasSubstr("3 of 4"), HasSubstr("not loaded")));
  EXPECT_THAT(message_of([&] { layer.load_expert(2, ExpertSlice(data, 2).tensors()); }),
              AllOf(HasSubstr("2"), HasSubstr("loaded already")));
  EXPECT_THAT(message_of([&] { layer.load_expert(4, ExpertSlice(data, 0).tensors()); }),
              AllOf(HasSubstr("[0, 4)"), HasSubstr("4")));
  EXPECT_THAT(message_of([&] { layer.load_expert(-1, ExpertSlice(data, 0).tensors()); }),
              HasSubstr("-1"));
  EXPECT_THAT(message_of([&] { layer.plan({.max_num_tokens = -1}); }), HasSubstr("-1"));
}

TEST(Arguments, ExpertTensors) {
  const LayerData data = random_layer(base(), 1);
  FusedMoE layer(base());
  layer.plan({.max_num_tokens = 1});
  const ExpertSlice slice(data, 0);
  const auto refuse = [&](const std::function<void(ExpertTensors&)>& spoil) {
    ExpertTensors tensors = slice.tensors();
    spoil(tensors);
    return message_of([&] { layer.load_expert(1, tensors); });
  };
  EXPECT_THAT(
      refuse([](ExpertTensors& t) { t.w1.rows = 7; }),
      AllOf(HasSubstr("w1"), HasSubstr("expert 1"), HasSubstr("[8, 16]"), HasSubstr("[7, 16]")));
  EXPECT_THAT(refuse([](ExpertTensors& t) { t.w2.cols = 9; }),
              AllOf(HasSubstr("w2"), HasSubstr("[16, 8]"), HasSubstr("[16, 9]")));
  EXPECT_THAT(refuse([](ExpertTensors& t) { t.w3.data = nullptr; }),
              AllOf(HasSubstr("w3"), HasSubstr("nothing")));
  EXPECT_THAT(refuse([](ExpertTensors& t) { t.w2.dtype = DType::kF8E4M3; }),
              AllOf(HasSubstr("w2"), HasSubstr("F8_E4M3")));
  const std::vector<float> bias(8);
  EXPECT_THAT(refuse([&](ExpertTensors& t) { t.b1 = bias; }),
              AllOf(HasSubstr("b1"), HasSubstr("expected 0"), HasSubstr("got 8")));
  EXPECT_EQ(layer.missing_experts().size(), 4U) << "a refused expert counts as loaded";
}

TEST(Arguments, Configuration) {
  const auto refuse = [](const std::function<void(FusedMoEConfig&)>& spoil) {
    FusedMoEConfig config = base();
    spoil(config);
    EXPECT_FALSE(validate(config).empty());
    return message_of([&] { FusedMoE layer(config); });
  };
  EXPECT_THAT(refuse([](auto& c) { c.num_experts = 0; }),
              AllOf(HasSubstr("num_experts"), HasSubstr("0")));
  EXPECT_THAT(refuse([](auto& c) { c.hidden_size = -3; }),
              AllOf(HasSubstr("hidden_size"), HasSubstr("-3")));
  EXPECT_THAT(refuse([](auto& c) { c.intermediate_size = 0; }), HasSubstr("intermediate_size"));
  EXPECT_THAT(refuse([](auto& c) { c.top_k = 0; }), HasSubstr("top_k"));
  EXPECT_THAT(refuse([](auto& c) { c.weight_dtype = DType::kI8; }),
              AllOf(HasSubstr("weight_dtype"), HasSubstr("I8")));
  EXPECT_THAT(refuse([](auto& c) { c.hidden_dtype = DType::kF64; }),
              AllOf(HasSubstr("hidden_dtype"), HasSubstr("F64")));
  EXPECT_THAT(refuse([](auto& c) { c.no_combine = c.inplace = true; }),
              AllOf(HasSubstr("no_combine"), HasSubstr("inplace")));
  EXPECT_THAT(refuse([](auto& c) {
                c.no_combine = true;
                c.routed_scaling_factor = 2.0F;
              }),
              AllOf(HasSubstr("no_combine"), HasSubstr("routed_scaling_factor")));
  EXPECT_THAT(refuse([](auto& c) {
                c.activation = {Activation::kSwigluOai, false, 1.702F, 7.0F};
              }),
              AllOf(HasSubstr("swigluoai"), HasSubstr("gated")));
  EXPECT_THAT(refuse([](auto& c) {
                c.activation = {Activation::kGelu, true, 1.702F, 7.0F};
              }),
              AllOf(HasSubstr("gelu"), HasSubstr("7")));
  EXPECT_THAT(refuse([](auto& c) { c.parallel.tp_size = 3; }), HasSubstr("tp_size"));
  EXPECT_THAT(refuse([](auto& c) {
                c.parallel.ep_size = 2;
                c.reduce_results = true;
              }),
              HasSubstr("reduce_results"));
  // Everything that is wrong is said at once.
  EXPECT_THAT(refuse([](auto& c) {
                c.num_experts = 0;
                c.top_k = -1;
              }),
              AllOf(HasSubstr("num_experts"), HasSubstr("top_k")));
}

TEST(Arguments, B116_a_forced_kernel_is_obeyed_or_refused_with_all_reasons) {
  FusedMoE layer(base());
  for (const KernelChoice& kernel : layer.plan({.kernel = "reference"}).considered) {
    if (!kernel.reason.empty()) continue;
    FusedMoE forced(base());
    EXPECT_EQ(forced.plan({.kernel = kernel.name}).kernel, kernel.name);
    EXPECT_EQ(FusedMoE(base()).plan({.kernel = kernel.arithmetic}).arithmetic, kernel.arithmetic);
  }
  const auto text = message_of([&] { FusedMoE(base()).plan({.kernel = "no_such_kernel"}); },
                               ErrorCode::kUnsupported);
  EXPECT_THAT(text,
              AllOf(HasSubstr("no_such_kernel"), HasSubstr("reference"), HasSubstr("scalar_f32")));
  FusedMoEConfig f32 = base();
  f32.weight_dtype = DType::kF32;
  EXPECT_THAT(
      message_of([&] { FusedMoE(f32).plan({.kernel = "amx_bf16"}); }, ErrorCode::kUnsupported),
      AllOf(HasSubstr("amx_bf16"), HasSubstr("BF16"), HasSubstr("F32")));
}

TEST(Arguments, PlanAgain) {
  Call call;
  FusedMoE& layer = call.planned.layer();
  const std::string kernel = layer.plan_report().kernel;
  const auto before = call.planned.run(call.batch);
  EXPECT_EQ(layer.plan({.max_num_tokens = 100, .kernel = kernel}).max_num_tokens, 100);
  Workspace larger(layer.plan_report().workspace_bytes);
  EXPECT_NO_THROW(call.run(larger));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), call.out_bytes.begin()));
  EXPECT_THAT(message_of([&] { layer.plan({.kernel = "reference"}); }),
              AllOf(HasSubstr(kernel), HasSubstr("reference")));
  EXPECT_EQ(layer.plan_report().max_num_tokens, 100) << "a refused plan changed the layer";
}

TEST(Arguments, FindLayer) {
  FusedMoEConfig config = base();
  config.layer_id = 9001;
  EXPECT_EQ(find_layer(9001), nullptr);
  {
    FusedMoE first(config);
    EXPECT_EQ(find_layer(9001), &first);
    FusedMoE moved = std::move(first);
    EXPECT_EQ(find_layer(9001), &moved);
    {
      const FusedMoE later(config);
      EXPECT_EQ(find_layer(9001), &later);
    }
    config.layer_id = 9002;
    moved = FusedMoE(config);
    EXPECT_EQ(find_layer(9002), &moved);
  }
  EXPECT_EQ(find_layer(9001), nullptr);
  EXPECT_EQ(find_layer(9002), nullptr);
}

// Runs all of its tasks on threads of its own: what a host program's pool would do.
class CountingExecutor final : public Executor {
 public:
  int num_threads() const noexcept override { return 3; }
  void run(void (*task)(void*, int), void* context) override {
    ++num_runs;
    std::vector<std::thread> threads;
    for (int i = 1; i < 3; ++i) threads.emplace_back(task, context, i);
    task(context, 0);
    for (std::thread& thread : threads) thread.join();
  }
  int num_runs = 0;
};

TEST(Arguments, ExecutorOfTheCaller) {
  Call call;
  const auto expected = call.planned.run(call.batch);
  CountingExecutor executor;
  const PlanReport& report =
      call.planned.layer().plan({.max_num_tokens = kTokens,
                                 .executor = &executor,
                                 .kernel = call.planned.layer().plan_report().kernel});
  EXPECT_EQ(report.num_threads, 3);
  Workspace workspace(report.workspace_bytes);
  call.run(workspace);
  EXPECT_GT(executor.num_runs, 0);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), call.out_bytes.begin()));
}

TEST(Arguments, TwoThreadsWithTwoWorkspacesAndExecutors) {
  const LayerData data = random_layer(base(), 1);
  const BatchData batch = random_batch(base(), {.num_tokens = kTokens}, 2);
  PlannedLayer a(data, kTokens, "", 1);
  const auto expected = a.run(batch);
  PlannedLayer b(data, kTokens, "", 2);
  std::vector<std::byte> from_thread;
  std::thread thread([&] {
    for (int i = 0; i < 50; ++i) from_thread = b.run(batch);
  });
  std::vector<std::byte> here;
  for (int i = 0; i < 50; ++i) here = a.run(batch);
  thread.join();
  EXPECT_EQ(from_thread, expected);
  EXPECT_EQ(here, expected);
}

TEST(Arguments, TwoThreadsTakeTurnsOnOneExecutor) {
  const LayerData data = random_layer(base(), 1);
  const BatchData batch = random_batch(base(), {.num_tokens = kTokens}, 2);
  PlannedLayer a(data, kTokens, "", 2);
  PlannedLayer b(data, kTokens, "", 2);  // the same pool
  const auto expected = a.run(batch);
  std::vector<std::byte> from_thread;
  std::thread thread([&] {
    for (int i = 0; i < 50; ++i) from_thread = b.run(batch);
  });
  std::vector<std::byte> here;
  for (int i = 0; i < 50; ++i) here = a.run(batch);
  thread.join();
  EXPECT_EQ(from_thread, expected);
  EXPECT_EQ(here, expected);
}

}  // namespace
}  // namespace fusedmoe::test
