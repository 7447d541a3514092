#include <algorithm>
#include <iterator>

#include "checkpoint/families/rows.h"

namespace fusedmoe {
namespace {

ExpertTensorPattern projection(const std::string& module, ExpertShard shard) {
  ExpertTensorPattern pattern;
  pattern.module = module;
  pattern.shard = shard;
  return pattern;
}

}  // namespace

ExpertLayout gate_up_down(const std::string& base) {
  return {.tensors = {projection(base + "gate_proj", ExpertShard::kW1),
                      projection(base + "up_proj", ExpertShard::kW3),
                      projection(base + "down_proj", ExpertShard::kW2)}};
}

ExpertLayout w1_w3_w2(const std::string& base) {
  return {.tensors = {projection(base + "w1", ExpertShard::kW1),
                      projection(base + "w3", ExpertShard::kW3),
                      projection(base + "w2", ExpertShard::kW2)}};
}

const std::vector<ModelFamily>& builtin_families() {
  static const std::vector<ModelFamily> table = [] {
    std::vector<ModelFamily> rows;
    for (auto part : {qwen_families, deepseek_families, mixtral_families, stacked_families,
                      gpt_oss_families, shared_mlp_families, hybrid_families}) {
      std::ranges::move(part(), std::back_inserter(rows));
    }
    return rows;
  }();
  return table;
}

}  // namespace fusedmoe
