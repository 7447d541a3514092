#include "inspect_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "layer_facts.h"
#include "text_table.h"

namespace fusedmoe::cli {
namespace {

struct FileShare {
  std::int64_t num_tensors = 0;
  std::uint64_t bytes = 0;
};

FileShare share_of_layer(const Checkpoint& checkpoint, const MoeLayerDescription& layer) {
  FileShare share;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    for (const std::string& prefix : layer.owned_prefixes) {
      if (!tensor.name.starts_with(prefix)) continue;
      ++share.num_tensors;
      share.bytes += tensor.num_bytes;
      break;
    }
  }
  return share;
}

FileShare share_of_all(const Checkpoint& checkpoint) {
  FileShare share;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    ++share.num_tensors;
    share.bytes += tensor.num_bytes;
  }
  return share;
}

struct RankShare {
  int tp_rank = 0;
  int ep_rank = 0;
  std::int64_t num_local_experts = 0;  ///< of the first MoE layer
  std::int64_t intermediate_size = 0;  ///< of the first MoE layer
  std::int64_t first_expert = -1;      ///< of the first MoE layer; -1: none
  std::int64_t last_expert = -1;
  std::int64_t expert_bytes = 0;  ///< routed experts of all MoE layers
};

void add_layer(const MoeLayerDescription& layer, const ParallelLayout& layout, RankShare& share) {
  // The layer itself says what a rank holds, and refuses a grid that cannot hold it.
  const FusedMoE experts(experts_config(layer, DType::kF32, layout));
  const std::int64_t parameters = expert_parameters(
      layer.hidden_size, experts.intermediate_size_per_partition(), layer.activation);
  share.expert_bytes +=
      experts.num_local_experts() * parameters * dtype_bits(layer.weight_dtype) / 8;
}

std::vector<RankShare> rank_shares(const ModelDescription& model, const GridOptions& grid) {
  std::vector<RankShare> shares;
  if (model.layers.empty()) return shares;
  for (int ep = 0; ep < grid.ep_size; ++ep) {
    for (int tp = 0; tp < grid.tp_size; ++tp) {
      const ParallelLayout layout = layout_of(grid, tp, ep);
      RankShare share{.tp_rank = tp, .ep_rank = ep};
      for (const MoeLayerDescription& layer : model.layers) add_layer(layer, layout, share);
      const MoeLayerDescription& first = model.layers.front();
      const FusedMoE experts(experts_config(first, DType::kF32, layout));
      share.num_local_experts = experts.num_local_experts();
      share.intermediate_size = experts.intermediate_size_per_partition();
      const std::vector<std::int32_t> logical = local_to_logical(layout, first.num_experts);
      if (!logical.empty()) {
        share.first_expert = logical.front();
        share.last_expert = logical.back();
      }
      shares.push_back(share);
    }
  }
  return shares;
}

// Cells of the layer table after the layer's number.
std::vector<std::string> layer_cells(const Checkpoint& checkpoint,
                                     const MoeLayerDescription& layer) {
  const SharedExpertDescription& shared = layer.shared;
  std::string experts = std::to_string(layer.num_experts);
  if (layer.num_identity_experts > 0) experts += fmt::format("+{}", layer.num_identity_experts);
  const FileShare share = share_of_layer(checkpoint, layer);
  return {experts,
          std::to_string(layer.hidden_size),
          std::to_string(layer.intermediate_size),
          routing_words(layer.routing),
          activation_words(layer.activation) + (layer.has_expert_bias ? ", biases" : ""),
          shared.intermediate_size == 0 ? "none" : std::to_string(shared.intermediate_size),
          format_words(layer.quant, layer.weight_dtype),
          std::to_string(share.num_tensors),
          format_bytes(static_cast<double>(share.bytes))};
}

// Layers that differ in nothing but their number share a line: "3-60".
std::string layer_table(const OpenModel& model) {
  TextTable table({"layers", ">experts", ">hidden", ">intermediate", "router", "activation",
                   ">shared", "format", ">tensors", ">bytes each"});
  const auto& layers = model.model.layers;
  for (std::size_t begin = 0; begin < layers.size();) {
    std::vector<std::string> cells = layer_cells(model.checkpoint, layers[begin]);
    std::size_t end = begin + 1;
    while (end < layers.size() && layers[end].layer_index == layers[end - 1].layer_index + 1 &&
           layer_cells(model.checkpoint, layers[end]) == cells) {
      ++end;
    }
    const int first = layers[begin].layer_index;
    const int last = layers[end - 1].layer_index;
    cells.insert(cells.begin(),
                 first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
    table.add_row(std::move(cells));
    begin = end;
  }
  return table.plain();
}

std::string rank_table(const ModelDescription& model, const GridOptions& grid) {
  TextTable table(
      {">ep rank", ">tp rank", ">experts", "logical ids", ">intermediate", ">expert bytes"});
  for (const RankShare& share : rank_shares(model, grid)) {
    table.add_row({std::to_string(share.ep_rank), std::to_string(share.tp_rank),
                   std::to_string(share.num_local_experts),
                   share.first_expert < 0
                       ? "none"
                       : fmt::format("{}-{}", share.first_expert, share.last_expert),
                   std::to_string(share.intermediate_size),
                   format_bytes(static_cast<double>(share.expert_bytes))});
  }
  return table.plain();
}

nlohmann::ordered_json layer_json(const Checkpoint& checkpoint, const MoeLayerDescription& layer) {
  const FileShare share = share_of_layer(checkpoint, layer);
  return {{"layer", layer.layer_index},
          {"prefix", layer.prefix},
          {"num_experts", layer.num_experts},
          {"num_identity_experts", layer.num_identity_experts},
          {"top_k", layer.routing.top_k},
          {"hidden_size", layer.hidden_size},
          {"intermediate_size", layer.intermediate_size},
          {"shared_intermediate_size", layer.shared.intermediate_size},
          {"router", routing_words(layer.routing)},
          {"activation", activation_words(layer.activation)},
          {"has_bias", layer.has_expert_bias},
          {"format", layer.quant.scheme.name},
          {"weight_dtype", activation_dtype_word(layer.weight_dtype)},
          {"num_tensors", share.num_tensors},
          {"bytes", share.bytes}};
}

}  // namespace

std::string inspect_text(const OpenModel& model, const GridOptions& grid) {
  const ModelDescription& description = model.model;
  const FileShare all = share_of_all(model.checkpoint);
  std::string text = fmt::format(
      "model   {} (family {}), {} layers: {} MoE, {} dense\n"
      "files   {} with {} tensors, {}\n\n",
      description.model_type, description.family, description.num_hidden_layers,
      description.layers.size(), description.dense_layers.size(), model.checkpoint.files().size(),
      all.num_tensors, format_bytes(static_cast<double>(all.bytes)));
  text += layer_table(model);
  if (grid.tp_size * grid.ep_size > 1) {
    text += fmt::format("\nranks of tp {} x ep {} (routed experts, packed, all MoE layers)\n",
                        grid.tp_size, grid.ep_size);
    text += rank_table(description, grid);
  }
  return text;
}

nlohmann::ordered_json inspect_json(const OpenModel& model, const GridOptions& grid) {
  const ModelDescription& description = model.model;
  const FileShare all = share_of_all(model.checkpoint);
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const MoeLayerDescription& layer : description.layers) {
    layers.push_back(layer_json(model.checkpoint, layer));
  }
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const RankShare& share : rank_shares(description, grid)) {
    ranks.push_back({{"ep_rank", share.ep_rank},
                     {"tp_rank", share.tp_rank},
                     {"num_local_experts", share.num_local_experts},
                     {"first_expert", share.first_expert},
                     {"last_expert", share.last_expert},
                     {"intermediate_size", share.intermediate_size},
                     {"expert_bytes", share.expert_bytes}});
  }
  return {{"model_type", description.model_type},
          {"family", description.family},
          {"num_hidden_layers", description.num_hidden_layers},
          {"dense_layers", description.dense_layers},
          {"files", std::vector<std::string>(model.checkpoint.files().begin(),
                                             model.checkpoint.files().end())},
          {"num_tensors", all.num_tensors},
          {"bytes", all.bytes},
          {"layers", layers},
          {"tp_size", grid.tp_size},
          {"ep_size", grid.ep_size},
          {"ranks", ranks},
          {"warnings", description.warnings}};
}

}  // namespace fusedmoe::cli
