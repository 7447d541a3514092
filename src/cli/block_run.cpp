#include "block_run.h"

#include "fusedmoe/workspace.h"

namespace fusedmoe::cli {

MoeBlockInputs BlockInputs::views() const {
  MoeBlockInputs result;
  result.hidden_states = hidden_states.view();
  if (router_logits) result.router_logits = router_logits->view();
  if (topk_ids) result.topk = TopKView{topk_ids->view(), topk_weights->view()};
  if (input_ids) result.input_ids = input_ids->view();
  return result;
}

BlockResult forward_block(const MoeBlock& block, const BlockInputs& inputs) {
  const TopKConfig& routing = block.description().routing;
  const auto num_tokens = static_cast<std::size_t>(inputs.num_tokens());
  const auto num_experts = static_cast<std::size_t>(routing.num_experts);
  const auto top_k = static_cast<std::size_t>(routing.top_k);
  BlockResult result;
  result.hidden_states = make_tensor(inputs.hidden_states.dtype, inputs.hidden_states.shape);
  result.router_logits.resize(num_tokens * num_experts);
  result.topk_ids.resize(num_tokens * top_k);
  result.topk_weights.resize(num_tokens * top_k);
  result.tokens_per_expert.resize(num_experts);
  Workspace workspace(block.plan_report().workspace_bytes);
  block.forward(inputs.views(), result.hidden_states.view(), workspace,
                {.router_logits = result.router_logits,
                 .topk_ids = result.topk_ids,
                 .topk_weights = result.topk_weights,
                 .tokens_per_expert = result.tokens_per_expert});
  return result;
}

}  // namespace fusedmoe::cli
