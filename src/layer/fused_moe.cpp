// FusedMoE: configuration, plan, weights. What a forward does is in fused_moe_forward.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fusedmoe/error.h"
#include "layer/fused_moe_impl.h"
#include "placement/expert_map.h"

namespace fusedmoe {
namespace {

// Layers by layer_id, for callers that know a layer by its number only.
struct Registry {
  std::mutex mutex;
  std::map<int, FusedMoE**> layers;  // where a layer's inside notes its present address
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

void fail_argument(const FusedMoEConfig& config, const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("[layer] {} ({})", message,
                          config.prefix.empty() ? fmt::format("layer {}", config.layer_id)
                                                : config.prefix));
}

// Where an id's expert is computed; the first rank of the grid answers for identity experts.
static std::vector<std::int32_t> make_local_of_id(const FusedMoEConfig& c) {
  std::vector<std::int32_t> map =
      local_of_logical(c.parallel, c.num_experts, c.num_fused_shared_experts);
  static_assert(kAbsentSlot == -1, "as local_of_logical writes it");
  const bool identity_here = c.parallel.ep_rank == 0 && c.parallel.tp_rank == 0;
  map.insert(map.end(), static_cast<std::size_t>(c.num_identity_experts),
             identity_here ? kIdentitySlot : kAbsentSlot);
  return map;
}

FusedMoE::Impl::Impl(FusedMoEConfig c) : config(std::move(c)) {
  const std::vector<std::string> problems = validate(config);
  if (!problems.empty()) fail_argument(config, fmt::format("{}", fmt::join(problems, "; ")));
  const std::vector<std::int32_t> local = local_to_logical(config.parallel, config.num_experts);
  num_local_experts = static_cast<std::int64_t>(local.size()) + config.num_fused_shared_experts;
  local_intermediate = config.intermediate_size / config.parallel.tp_size;
  local_of_id = make_local_of_id(config);
  loaded = std::vector<std::atomic<bool>>(static_cast<std::size_t>(num_local_experts));
  if (config.layer_id < 0) return;  // a part of a block, which nobody looks up
  const std::lock_guard lock(registry().mutex);
  registry().layers[config.layer_id] = &self;
}

FusedMoE::Impl::~Impl() {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().layers.find(config.layer_id);
  if (found != registry().layers.end() && found->second == &self) registry().layers.erase(found);
}

FusedMoE* find_layer(int layer_id) noexcept {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().layers.find(layer_id);
  return found == registry().layers.end() ? nullptr : *found->second;
}

FusedMoE::FusedMoE(FusedMoEConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {
  impl_->self = this;
}
FusedMoE::FusedMoE(FusedMoE&& other) noexcept : impl_(std::move(other.impl_)) {
  if (impl_ != nullptr) impl_->self = this;
}
FusedMoE& FusedMoE::operator=(FusedMoE&& other) noexcept {
  impl_ = std::move(other.impl_);
  if (impl_ != nullptr) impl_->self = this;
  return *this;
}
FusedMoE::~FusedMoE() = default;

const FusedMoEConfig& FusedMoE::config() const noexcept { return impl_->config; }
std::int64_t FusedMoE::num_local_experts() const noexcept { return impl_->num_local_experts; }
std::int64_t FusedMoE::intermediate_size_per_partition() const noexcept {
  return impl_->local_intermediate;
}
const PlanReport& FusedMoE::plan(const PlanOptions& options) { return impl_->plan(options); }
const PlanReport& FusedMoE::plan_report() const {
  if (impl_->kernel == nullptr) fail_argument(impl_->config, "plan_report: call plan() first");
  return impl_->report;
}

void FusedMoE::load_expert(std::int64_t local_expert, const ExpertTensors& tensors) {
  Impl& m = *impl_;
  if (m.kernel == nullptr) fail_argument(m.config, "load_expert: call plan() first");
  if (local_expert < 0 || local_expert >= m.num_local_experts) {
    fail_argument(m.config, fmt::format("load_expert: expected a local expert in [0, {}), got {}",
                                        m.num_local_experts, local_expert));
  }
  const std::int64_t h = m.config.hidden_size;
  const std::int64_t i = m.local_intermediate;
  const bool gated = m.config.activation.is_gated;
  const auto check = [&](const char* name, const MatrixView& view, std::int64_t rows,
                         std::int64_t cols) {
    if (view.data == nullptr || view.rows != rows || view.cols != cols ||
        !is_activation_dtype(view.dtype)) {
      fail_argument(
          m.config,
          fmt::format("load_expert: {} of local expert {}: expected [{}, {}] of F32, "
                      "BF16 or F16, got {}",
                      name, local_expert, rows, cols,
                      view.data == nullptr ? std::string("nothing")
                                           : fmt::format("[{}, {}] of {}", view.rows, view.cols,
                                                         dtype_name(view.dtype))));
    }
  };
  const auto check_bias = [&](const char* name, std::span<const float> bias, std::int64_t size) {
    if (static_cast<std::int64_t>(bias.size()) != (m.config.has_bias ? size : 0)) {
      fail_argument(m.config,
                    fmt::format("load_expert: {} of local expert {}: expected {} "
                                "numbers, got {}",
                                name, local_expert, m.config.has_bias ? size : 0, bias.size()));
    }
  };
  check("w1", tensors.w1, i, h);
  if (gated) check("w3", tensors.w3, i, h);
  if (!gated && tensors.w3.data != nullptr) {
    fail_argument(m.config, fmt::format("load_expert: w3 of local expert {}: a non-gated expert "
                                        "has none",
                                        local_expert));
  }
  check("w2", tensors.w2, h, i);
  check_bias("b1", tensors.b1, i);
  check_bias("b3", tensors.b3, gated ? i : 0);
  check_bias("b2", tensors.b2, h);

  if (m.staged != nullptr) {
    std::vector<std::byte> slot(m.weights.slot_bytes());
    m.kernel->packer().pack(tensors, slot.data());
    const std::lock_guard lock(m.staged_mutex);
    (*m.staged)[local_expert] = std::move(slot);
    return;
  }
  if (m.loaded[static_cast<std::size_t>(local_expert)].exchange(true)) {
    fail_argument(m.config, fmt::format("load_expert: local expert {} is loaded already; use "
                                        "begin_update() to replace it",
                                        local_expert));
  }
  m.kernel->packer().pack(tensors, m.weights.slot(local_expert));
}

std::vector<std::int64_t> FusedMoE::missing_experts() const {
  std::vector<std::int64_t> missing;
  for (std::int64_t e = 0; e < impl_->num_local_experts; ++e) {
    if (!impl_->loaded[static_cast<std::size_t>(e)].load()) missing.push_back(e);
  }
  return missing;
}

void FusedMoE::begin_update() {
  impl_->check_ready();
  if (impl_->staged != nullptr) fail_argument(impl_->config, "begin_update: one is in progress");
  impl_->staged = std::make_unique<StagedExperts>();
}

void FusedMoE::commit_update() {
  if (impl_->staged == nullptr) {
    fail_argument(impl_->config, "commit_update: expected begin_update() before");
  }
  for (const auto& [expert, slot] : *impl_->staged) {
    std::copy(slot.begin(), slot.end(), impl_->weights.slot(expert));
  }
  impl_->staged.reset();
}

void FusedMoE::abort_update() noexcept { impl_->staged.reset(); }

std::int64_t FusedMoE::num_dropped_ids() const noexcept { return impl_->dropped_ids.load(); }

std::uint64_t FusedMoE::weights_checksum() const {
  impl_->check_ready();
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const std::byte* bytes = impl_->weights.slot(0);
  for (std::size_t i = 0; i < impl_->weights.num_bytes(); ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(bytes[i])) * 0x100000001b3ULL;
  }
  return hash;
}

ResultState FusedMoE::forward(TensorView hidden_states, const TopKView& topk, MutableTensorView out,
                              Workspace& workspace) const {
  impl_->check_ready();
  impl_->check_call(hidden_states, topk, out);
  const Workspace::Use use(workspace);
  if (workspace.num_bytes() < impl_->report.workspace_bytes) {
    fail_argument(impl_->config, fmt::format("workspace: expected at least {} bytes, got {}",
                                             impl_->report.workspace_bytes, workspace.num_bytes()));
  }
  impl_->run(hidden_states, topk, out, workspace.memory());
  const ParallelLayout& p = impl_->config.parallel;
  return p.tp_size > 1 || p.ep_size > 1 ? ResultState::kPartial : ResultState::kReduced;
}

}  // namespace fusedmoe
