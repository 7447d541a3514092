#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/families/resolve.h"

namespace fusedmoe {
namespace {

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

/// The number of layers: as the config says, or the length of a list with one word a layer.
std::size_t count_layers(const ModelFamily& family, const ModelConfig& config) {
  const IntRange range{1, kMaxLayers};
  if (const auto count = config.integer(family.num_layers, range)) {
    return static_cast<std::size_t>(*count);
  }
  std::size_t length = 0;
  if (const auto types = config.text_list(family.layers.types)) {
    length = types->size();
  } else if (!family.layers.pattern.empty()) {
    length = config.text({family.layers.pattern, ""}).size();
  }
  if (length == 0) return static_cast<std::size_t>(config.required(family.num_layers, range));
  if (length > static_cast<std::size_t>(kMaxLayers)) {
    config.fail("layers", fmt::format("at most {} layers", kMaxLayers), std::to_string(length));
  }
  return length;
}

std::vector<LayerKind> by_list(const std::vector<std::int64_t>& list, std::size_t num_layers,
                               const std::string& key, const ModelConfig& config) {
  std::vector<LayerKind> kinds(num_layers, LayerKind::kDense);
  for (const std::int64_t layer : list) {
    if (layer < 0 || layer >= static_cast<std::int64_t>(num_layers)) {
      config.fail(key, fmt::format("layers in [0, {})", num_layers), std::to_string(layer));
    }
    kinds[static_cast<std::size_t>(layer)] = LayerKind::kMoe;
  }
  return kinds;
}

std::vector<LayerKind> by_types(const LayerRule& rule, const std::vector<std::string>& types) {
  std::vector<LayerKind> kinds;
  for (const std::string& type : types) {
    kinds.push_back(contains(rule.hash_types, type)  ? LayerKind::kHashMoe
                    : contains(rule.moe_types, type) ? LayerKind::kMoe
                                                     : LayerKind::kDense);
  }
  return kinds;
}

std::vector<LayerKind> by_arithmetic(const LayerRule& rule, std::size_t num_layers,
                                     const ModelConfig& config) {
  const auto count = static_cast<std::int64_t>(num_layers);
  const std::int64_t first = config.required(rule.first, {0, kMaxLayers});
  const std::int64_t given_last = config.required(rule.last, {-1, kMaxLayers});
  const std::int64_t last = given_last < 0 ? count - 1 : given_last;
  const std::int64_t step = std::max<std::int64_t>(1, config.required(rule.step, {0, kMaxLayers}));
  const std::int64_t offset = config.required(rule.offset, {0, kMaxLayers});
  const std::int64_t num_hash = config.required(rule.num_hash_layers, {0, kMaxLayers});
  const auto dense = config.int_list(rule.dense_list).value_or(std::vector<std::int64_t>{});
  std::vector<LayerKind> kinds(num_layers, LayerKind::kDense);
  for (std::int64_t layer = first; layer <= last && layer < count; ++layer) {
    if ((layer + rule.step_shift) % step != offset) continue;
    if (std::ranges::find(dense, layer) != dense.end()) continue;
    kinds[static_cast<std::size_t>(layer)] =
        layer < num_hash ? LayerKind::kHashMoe : LayerKind::kMoe;
  }
  return kinds;
}

}  // namespace

std::vector<LayerKind> layer_kinds(const ModelFamily& family, const ModelConfig& config) {
  const LayerRule& rule = family.layers;
  const std::size_t num_layers = count_layers(family, config);
  if (!config.flag(rule.enabled)) return std::vector<LayerKind>(num_layers, LayerKind::kDense);
  if (const auto list = config.int_list(rule.list)) {
    return by_list(*list, num_layers, rule.list.front(), config);
  }
  std::vector<LayerKind> kinds;
  std::string key;
  if (const auto types = config.text_list(rule.types)) {
    kinds = by_types(rule, *types);
    key = rule.types.front();
  } else if (config.find_any(rule.pattern, &key) != nullptr) {
    for (const char letter : config.text({rule.pattern, ""})) {
      kinds.push_back(rule.moe_letter.find(letter) != std::string::npos ? LayerKind::kMoe
                                                                        : LayerKind::kDense);
    }
  } else {
    return by_arithmetic(rule, num_layers, config);
  }
  if (kinds.size() != num_layers) {
    config.fail(key, fmt::format("one entry for each of {} layers", num_layers),
                fmt::format("{} entries", kinds.size()));
  }
  return kinds;
}

}  // namespace fusedmoe
