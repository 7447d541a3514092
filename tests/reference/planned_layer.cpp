#include "reference/planned_layer.h"

#include <cstring>
#include <map>
#include <stdexcept>

namespace fusedmoe::test {

Executor& shared_pool(int num_threads) {
  static std::map<int, std::unique_ptr<Executor>> pools;
  std::unique_ptr<Executor>& pool = pools[num_threads];
  if (pool == nullptr) pool = make_thread_pool({.num_threads = num_threads});
  return *pool;
}

void load_all(FusedMoE& layer, const LayerData& data) {
  const FusedMoEConfig& c = data.config;
  std::vector<std::int32_t> experts = local_to_logical(c.parallel, c.num_experts);
  for (std::int64_t s = 0; s < c.num_fused_shared_experts; ++s) {
    experts.push_back(static_cast<std::int32_t>(c.num_experts + s));
  }
  for (std::size_t local = 0; local < experts.size(); ++local) {
    layer.load_expert(static_cast<std::int64_t>(local),
                      ExpertSlice(data, experts[local]).tensors());
  }
}

PlannedLayer::PlannedLayer(const LayerData& data, std::int64_t max_num_tokens,
                           const std::string& kernel, int num_threads)
    : layer_(data.config) {
  const PlanReport& report = layer_.plan(
      {.max_num_tokens = max_num_tokens, .executor = &shared_pool(num_threads), .kernel = kernel});
  load_all(layer_, data);
  workspace_ = std::make_unique<Workspace>(report.workspace_bytes);
}

std::vector<std::byte> PlannedLayer::run(const BatchData& batch) {
  const FusedMoEConfig& c = layer_.config();
  const Shape shape = c.no_combine ? Shape{batch.num_tokens, c.top_k, c.hidden_size}
                                   : Shape{batch.num_tokens, c.hidden_size};
  GuardedBytes out(static_cast<std::size_t>(shape.num_elements() * dtype_bits(c.hidden_dtype) / 8));
  std::memset(workspace_->memory().data(), 0xFF, workspace_->num_bytes());
  layer_.forward(batch.hidden_view(), batch.topk(), {out.data(), c.hidden_dtype, shape},
                 *workspace_);
  if (!out.guards_intact()) throw std::runtime_error("forward wrote outside its output");
  return {out.span().begin(), out.span().end()};
}

std::vector<double> PlannedLayer::run_doubles(const BatchData& batch) {
  return to_doubles(run(batch), layer_.config().hidden_dtype);
}

std::vector<std::byte> take_rows(const std::vector<std::byte>& result, std::int64_t num_rows,
                                 std::int64_t first, std::int64_t count) {
  const auto row = static_cast<std::ptrdiff_t>(result.size()) / num_rows;
  return {result.begin() + first * row, result.begin() + (first + count) * row};
}

}  // namespace fusedmoe::test
