#include "layer/made_block.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "reference/planned_layer.h"

namespace fusedmoe::test {
namespace {

struct Projection {
  const char* name;
  ExpertShard shard;
  GuardedBytes ExpertData::*weight;
  bool is_down;
};

constexpr Projection kProjections[] = {{"gate_proj", ExpertShard::kW1, &ExpertData::w1, false},
                                       {"up_proj", ExpertShard::kW3, &ExpertData::w3, false},
                                       {"down_proj", ExpertShard::kW2, &ExpertData::w2, true}};

std::vector<ExpertTensorPattern> patterns(const std::string& module) {
  std::vector<ExpertTensorPattern> result;
  for (const Projection& p : kProjections) {
    ExpertTensorPattern pattern;
    pattern.module = module + p.name;
    pattern.shard = p.shard;
    result.push_back(pattern);
  }
  return result;
}

void add_experts(const LayerData& data, const std::function<std::string(std::size_t)>& module,
                 std::vector<NamedTensor>& tensors) {
  const std::int64_t h = data.config.hidden_size;
  const std::int64_t i = data.config.intermediate_size;
  for (std::size_t e = 0; e < data.experts.size(); ++e) {
    for (const Projection& p : kProjections) {
      tensors.push_back({module(e) + p.name + ".weight",
                         {(data.experts[e].*p.weight).data(), data.config.weight_dtype,
                          p.is_down ? Shape{h, i} : Shape{i, h}}});
    }
  }
}

}  // namespace

MadeBlockData random_block(const FusedMoEConfig& config, std::uint64_t seed) {
  Random random(seed);
  const auto normal = [&](std::int64_t size) {
    std::vector<double> values(static_cast<std::size_t>(size));
    const double deviation = 1.0 / std::sqrt(static_cast<double>(config.hidden_size));
    for (double& v : values) v = random.normal() * deviation;
    return values;
  };
  FusedMoEConfig shared = config;
  shared.num_experts = shared.top_k = 1;
  shared.intermediate_size = config.intermediate_size * 3 / 2;
  return {random_layer(config, random.next()), normal(config.num_experts * config.hidden_size),
          random_layer(shared, random.next()), normal(config.hidden_size)};
}

MadeBlock::MadeBlock(const MadeBlockData& data) {
  static std::atomic<int> number{0};
  folder_ = std::filesystem::temp_directory_path() /
            fmt::format("fusedmoe_block_{}_{}", getpid(), number++);
  std::filesystem::create_directory(folder_);
  const FusedMoEConfig& c = data.routed.config;
  MoeLayerDescription& d = description_;
  d.prefix = "block.";
  d.owned_prefixes = {"block."};
  d.hidden_size = c.hidden_size;
  d.intermediate_size = c.intermediate_size;
  d.num_experts = c.num_experts;
  d.activation = c.activation;
  d.weight_dtype = c.weight_dtype;
  d.routing.num_experts = c.num_experts;
  d.routing.top_k = c.top_k;
  d.router.weight = "block.gate.weight";
  d.experts = patterns("block.experts.{expert}.");

  std::vector<NamedTensor> tensors;
  add_experts(
      data.routed, [](std::size_t e) { return fmt::format("block.experts.{}.", e); }, tensors);
  const GuardedBytes router = to_bytes(data.router, DType::kF32);
  tensors.push_back(
      {d.router.weight, {router.data(), DType::kF32, {c.num_experts, c.hidden_size}}});
  GuardedBytes gate;
  if (data.shared.has_value()) {
    d.shared.intermediate_size = data.shared->config.intermediate_size;
    d.shared.activation = c.activation;
    d.shared.weight_dtype = c.weight_dtype;
    d.shared.tensors = patterns("block.shared_expert.");
    add_experts(
        *data.shared, [](std::size_t) { return std::string("block.shared_expert."); }, tensors);
  }
  if (!data.shared_gate.empty()) {
    d.shared.gate_weight = "block.shared_expert_gate.weight";
    gate = to_bytes(data.shared_gate, DType::kF32);
    tensors.push_back({d.shared.gate_weight, {gate.data(), DType::kF32, {1, c.hidden_size}}});
  }
  write_safetensors(folder_ / "model.safetensors", tensors);
  checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open(folder_ / "model.safetensors"));
}

MadeBlock::~MadeBlock() {
  checkpoint_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

MoeBlock MadeBlock::load(DType hidden_dtype, std::int64_t max_num_tokens,
                         const ParallelLayout& parallel, int num_threads) const {
  MoeBlock block(description_, hidden_dtype, parallel);
  block.plan(
      {.max_num_tokens = max_num_tokens, .executor = &shared_pool(num_threads), .kernel = {}});
  block.load(*checkpoint_);
  return block;
}

MadeResult run_block(const MoeBlock& block, const MoeBlockInputs& inputs) {
  const TopKConfig& routing = block.description().routing;
  const TensorView& x = inputs.hidden_states;
  const auto tokens = static_cast<std::size_t>(x.shape[0]);
  MadeResult result;
  result.logits.resize(tokens * static_cast<std::size_t>(routing.num_experts));
  result.ids.resize(tokens * static_cast<std::size_t>(routing.top_k));
  result.weights.resize(result.ids.size());
  result.tokens_per_expert.resize(static_cast<std::size_t>(routing.num_experts));
  GuardedBytes out(static_cast<std::size_t>(x.shape.num_elements() * dtype_bits(x.dtype) / 8));
  Workspace workspace(block.plan_report().workspace_bytes);
  std::fill(workspace.memory().begin(), workspace.memory().end(), std::byte{0xFF});
  result.state =
      block.forward(inputs, {out.data(), x.dtype, x.shape}, workspace,
                    {result.logits, result.ids, result.weights, result.tokens_per_expert});
  if (!out.guards_intact()) throw std::runtime_error("forward wrote outside its output");
  result.output = to_doubles(out.span(), x.dtype);
  return result;
}

}  // namespace fusedmoe::test
