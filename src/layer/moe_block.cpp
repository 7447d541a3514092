// MoeBlock: construction, plan and loading. What a forward does is in moe_block_forward.cpp.
#include <fmt/format.h>

#include <cmath>

#include "fusedmoe/error.h"
#include "layer/moe_block_impl.h"
#include "weights/load.h"

namespace fusedmoe {
namespace {

FusedMoEConfig routed_config(const MoeLayerDescription& d, DType hidden_dtype,
                             const ParallelLayout& parallel) {
  FusedMoEConfig c;
  c.num_experts = d.num_experts;
  c.hidden_size = d.hidden_size;
  c.intermediate_size = d.intermediate_size;
  c.top_k = d.routing.top_k;
  c.layer_id = d.layer_index;
  c.prefix = d.prefix;
  c.num_identity_experts = d.num_identity_experts;
  c.weight_dtype = d.weight_dtype;
  c.hidden_dtype = hidden_dtype;
  c.activation = d.activation;
  c.has_bias = d.has_expert_bias;
  c.apply_router_weight_on_input = d.apply_router_weight_on_input;
  c.parallel = parallel;
  return c;
}

FusedMoEConfig shared_config(const MoeLayerDescription& d, DType hidden_dtype,
                             const ParallelLayout& parallel) {
  FusedMoEConfig c;
  c.num_experts = 1;
  c.hidden_size = d.hidden_size;
  c.intermediate_size = d.shared.intermediate_size;
  c.top_k = 1;
  c.layer_id = -1;  // only the routed layer is found by number
  c.prefix = d.prefix + "shared expert";
  c.weight_dtype = d.shared.weight_dtype;
  c.hidden_dtype = hidden_dtype;
  c.activation = d.shared.activation;
  c.parallel.tp_size = parallel.tp_size;
  c.parallel.tp_rank = parallel.tp_rank;
  c.parallel.presharded = parallel.presharded;
  return c;
}

}  // namespace

MoeBlock::Impl::Impl(const MoeLayerDescription& d, DType dtype, const ParallelLayout& layout)
    : description(d),
      hidden_dtype(dtype),
      parallel(layout),
      experts(routed_config(d, dtype, layout)),
      routing(d.routing) {
  // Every token passes the shared expert once: the first expert-parallel rank computes it.
  if (d.shared.intermediate_size > 0 && layout.ep_rank == 0) {
    shared = std::make_unique<FusedMoE>(shared_config(d, dtype, layout));
  }
}

const PlanReport& MoeBlock::Impl::plan(const PlanOptions& options) {
  PlanOptions inner = options;
  if (options.executor != nullptr) {
    executor = options.executor;
  } else if (executor == nullptr) {
    own_executor = make_thread_pool();
    executor = own_executor.get();
  }
  inner.executor = executor;
  report = experts.plan(inner);
  if (shared != nullptr) {
    const PlanReport& s = shared->plan(inner);
    report.weight_bytes += s.weight_bytes;
    report.notes.push_back(
        fmt::format("shared expert of width {}: kernel {}, added after the "
                    "routed sum with one more rounding",
                    description.shared.intermediate_size, s.kernel));
  } else if (description.shared.intermediate_size > 0) {
    report.notes.push_back("shared expert: computed by expert-parallel rank 0");
  }
  report.notes.push_back(fmt::format("routing renormalizes ({}) and multiplies by {}",
                                     routing.renormalize ? "yes" : "no",
                                     routing.routed_scaling_factor));
  report.workspace_bytes = measure(options.max_num_tokens);
  return report;
}

LoadReport MoeBlock::Impl::load(const Checkpoint& checkpoint, const LoadOptions& options) {
  const MoeLayerDescription& d = description;
  LoadLedger ledger;
  const auto dense = [&](const std::string& name, std::initializer_list<Shape> shapes) {
    return name.empty() ? std::vector<float>{} : load_dense_f32(checkpoint, name, shapes, ledger);
  };
  const std::int64_t num_routed = routing.num_experts;
  const std::vector<float> weight = dense(d.router.weight, {Shape{num_routed, d.hidden_size}});
  const std::vector<float> bias = dense(d.router.bias, {Shape{num_routed}});
  routing.correction_bias =
      dense(d.router.correction_bias, {Shape{num_routed}, Shape{1, num_routed}});
  routing.per_expert_scale = dense(d.router.per_expert_scale, {Shape{num_routed}});
  router_input_scale = dense(d.router.input_scale, {Shape{d.hidden_size}});
  const std::vector<float> gate = dense(d.shared.gate_weight, {Shape{1, d.hidden_size}});
  if (!d.router.hash_table.empty()) {
    hash_table = load_id_table(checkpoint, d.router.hash_table, routing.top_k, num_routed, ledger);
    vocab_size = static_cast<std::int64_t>(hash_table.size()) / routing.top_k;
  }

  const auto request = [&](const char* group, FusedMoE& layer,
                           const std::vector<ExpertTensorPattern>& tensors,
                           const QuantAnnouncement& quant) {
    const FusedMoEConfig& c = layer.config();
    ExpertLoadRequest r;
    r.group = group;
    r.tensors = &tensors;
    r.quant = &quant;
    r.num_experts = c.num_experts;
    r.hidden_size = c.hidden_size;
    r.intermediate_size = c.intermediate_size;
    r.is_gated = c.activation.is_gated;
    r.has_bias = c.has_bias;
    r.parallel = c.parallel;
    r.weight_dtype = c.weight_dtype;
    r.sink = [&layer](std::int64_t expert, const ExpertTensors& t) {
      layer.load_expert(expert, t);
    };
    return r;
  };
  load_experts(checkpoint, request("routed", experts, d.experts, d.quant), options, ledger);
  if (shared != nullptr) {
    load_experts(checkpoint, request("shared", *shared, d.shared.tensors, d.shared.quant), options,
                 ledger);
  } else if (d.shared.intermediate_size > 0) {
    FusedMoE elsewhere(shared_config(d, hidden_dtype, {}));
    skip_experts(checkpoint, request("shared", elsewhere, d.shared.tensors, d.shared.quant),
                 ledger);
  }
  LoadReport result = ledger.finish(checkpoint, d.owned_prefixes, options.report);
  result.bytes_packed = report.weight_bytes;

  router = Linear(num_routed, d.hidden_size, weight, bias);
  if (!gate.empty()) shared_gate = Linear(1, d.hidden_size, gate, {});
  const float root = 1.0F / std::sqrt(static_cast<float>(d.hidden_size));
  for (float& s : router_input_scale) s *= root;
  const std::vector<std::string> problems = validate(routing);
  if (!problems.empty()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("[layer] routing of {}: {}", d.prefix, problems.front()));
  }
  loaded = true;
  return result;
}

MoeBlock::MoeBlock(const MoeLayerDescription& description, DType hidden_dtype,
                   const ParallelLayout& parallel)
    : impl_(std::make_unique<Impl>(description, hidden_dtype, parallel)) {}
MoeBlock::MoeBlock(MoeBlock&&) noexcept = default;
MoeBlock& MoeBlock::operator=(MoeBlock&&) noexcept = default;
MoeBlock::~MoeBlock() = default;

const MoeLayerDescription& MoeBlock::description() const noexcept { return impl_->description; }
const PlanReport& MoeBlock::plan(const PlanOptions& options) { return impl_->plan(options); }
const PlanReport& MoeBlock::plan_report() const {
  if (impl_->executor == nullptr) {
    fail_argument(impl_->experts.config(), "plan_report: call plan() first");
  }
  return impl_->report;
}
LoadReport MoeBlock::load(const Checkpoint& checkpoint, const LoadOptions& options) {
  if (impl_->executor == nullptr) {
    fail_argument(impl_->experts.config(), "load: call plan() first");
  }
  return impl_->load(checkpoint, options);
}
FusedMoE& MoeBlock::experts() noexcept { return impl_->experts; }
std::int64_t MoeBlock::num_dead_rows() const noexcept { return impl_->dead_rows.load(); }
void MoeBlock::set_shared_experts_enabled(bool enabled) noexcept {
  impl_->shared_enabled = enabled;
}

}  // namespace fusedmoe
