#include "weights/disk_layout.h"

#include <algorithm>
#include <stdexcept>

namespace fusedmoe::test {
namespace {

constexpr DiskLayout kLayouts[] = {
    {.name = "per_expert"},
    {.name = "per_expert_joined", .joins_gate_and_up = true},
    {.name = "per_expert_non_gated", .is_gated = false},
    {.name = "stacked_separate", .is_stacked = true},
    {.name = "stacked_non_gated", .is_gated = false, .is_stacked = true},
    {.name = "stacked_joined", .is_stacked = true, .joins_gate_and_up = true},
    {.name = "stacked_joined_up_first",
     .is_stacked = true,
     .joins_gate_and_up = true,
     .is_up_first = true},
    {.name = "stacked_joined_transposed",
     .is_stacked = true,
     .joins_gate_and_up = true,
     .transposes_inputs = true,
     .transposes_down = true},
    {.name = "stacked_interleaved",
     .is_stacked = true,
     .joins_gate_and_up = true,
     .is_interleaved = true},
    {.name = "stacked_interleaved_transposed",
     .is_stacked = true,
     .joins_gate_and_up = true,
     .is_interleaved = true,
     .transposes_inputs = true,
     .transposes_down = true},
    {.name = "flattened_down_transposed",
     .is_stacked = true,
     .is_flattened = true,
     .transposes_down = true},
    {.name = "either_way_as_is",
     .is_stacked = true,
     .joins_gate_and_up = true,
     .orientation_from_shape = true},
    {.name = "either_way_transposed",
     .is_stacked = true,
     .joins_gate_and_up = true,
     .transposes_inputs = true,
     .transposes_down = true,
     .orientation_from_shape = true},
};

// A projection as this layout stores it.
struct Projection {
  ExpertShard shard;
  std::string name;
  bool is_transposed;
};

std::vector<Projection> projections(const DiskLayout& layout) {
  const bool up = layout.transposes_inputs;
  const Projection down{ExpertShard::kW2, "down_proj", layout.transposes_down};
  if (layout.joins_gate_and_up) return {{ExpertShard::kW13, "gate_up_proj", up}, down};
  if (!layout.is_gated) return {{ExpertShard::kW1, "up_proj", up}, down};
  return {{ExpertShard::kW1, "gate_proj", up}, {ExpertShard::kW3, "up_proj", up}, down};
}

// The row of one projection that a stored row of a joined tensor is.
struct Row {
  ExpertShard shard;
  std::int64_t row;
};

Row logical_row(const DiskLayout& layout, ExpertShard shard, std::int64_t row, std::int64_t count) {
  if (shard != ExpertShard::kW13) return {shard, row};
  if (layout.is_interleaved) return {row % 2 == 0 ? ExpertShard::kW1 : ExpertShard::kW3, row / 2};
  const bool is_up = (row >= count) != layout.is_up_first;
  return {is_up ? ExpertShard::kW3 : ExpertShard::kW1, row % count};
}

class Writer {
 public:
  Writer(const DiskLayout& layout, const ExpertSizes& sizes, IntermediateRange range)
      : layout_(layout), sizes_(sizes), range_(range) {}

  void add_matrix(const Projection& p, std::int64_t expert, std::vector<float>& numbers) const {
    const auto [n, k] = extent(p);
    const std::int64_t rows = p.is_transposed ? k : n;
    const std::int64_t cols = p.is_transposed ? n : k;
    for (std::int64_t a = 0; a < rows; ++a) {
      for (std::int64_t b = 0; b < cols; ++b) {
        numbers.push_back(element(p, expert, p.is_transposed ? b : a, p.is_transposed ? a : b));
      }
    }
  }

  void add_bias(const Projection& p, std::int64_t expert, std::vector<float>& numbers) const {
    for (std::int64_t n = 0; n < extent(p).first; ++n) {
      const Row at = logical_row(layout_, p.shard, n, range_.count);
      const std::int64_t first = at.shard == ExpertShard::kW2 ? 0 : range_.first;
      numbers.push_back(bias_number(sizes_, expert, at.shard, first + at.row));
    }
  }

  Shape matrix_shape(const Projection& p) const {
    const auto [n, k] = extent(p);
    const std::int64_t rows = p.is_transposed ? k : n;
    const std::int64_t cols = p.is_transposed ? n : k;
    if (layout_.is_flattened) return {sizes_.num_experts * rows, cols};
    return layout_.is_stacked ? Shape{sizes_.num_experts, rows, cols} : Shape{rows, cols};
  }

  Shape bias_shape(const Projection& p) const {
    const std::int64_t n = extent(p).first;
    return layout_.is_stacked ? Shape{sizes_.num_experts, n} : Shape{n};
  }

 private:
  // Output and input features in this file.
  std::pair<std::int64_t, std::int64_t> extent(const Projection& p) const {
    if (p.shard == ExpertShard::kW2) return {sizes_.hidden_size, range_.count};
    return {p.shard == ExpertShard::kW13 ? 2 * range_.count : range_.count, sizes_.hidden_size};
  }

  float element(const Projection& p, std::int64_t expert, std::int64_t n, std::int64_t k) const {
    const Row at = logical_row(layout_, p.shard, n, range_.count);
    if (at.shard == ExpertShard::kW2) {
      return weight_number(sizes_, expert, at.shard, at.row, range_.first + k);
    }
    return weight_number(sizes_, expert, at.shard, range_.first + at.row, k);
  }

  const DiskLayout& layout_;
  const ExpertSizes& sizes_;
  IntermediateRange range_;
};

std::int64_t place_of(ExpertShard shard) {
  return shard == ExpertShard::kW1 ? 0 : shard == ExpertShard::kW3 ? 1 : 2;
}

}  // namespace

std::span<const DiskLayout> disk_layouts() { return kLayouts; }

const DiskLayout& disk_layout(const std::string& name) {
  const auto* found = std::find_if(std::begin(kLayouts), std::end(kLayouts),
                                   [&](const DiskLayout& layout) { return layout.name == name; });
  if (found == std::end(kLayouts)) throw std::runtime_error("no layout " + name);
  return *found;
}

float weight_number(const ExpertSizes& sizes, std::int64_t expert, ExpertShard shard,
                    std::int64_t row, std::int64_t col) {
  const std::int64_t matrix = sizes.hidden_size * sizes.intermediate_size;
  const std::int64_t cols = shard == ExpertShard::kW2 ? sizes.intermediate_size : sizes.hidden_size;
  return static_cast<float>(1 + (expert * 3 + place_of(shard)) * matrix + row * cols + col);
}

float bias_number(const ExpertSizes& sizes, std::int64_t expert, ExpertShard shard,
                  std::int64_t row) {
  const std::int64_t longest = std::max(sizes.hidden_size, sizes.intermediate_size);
  return -static_cast<float>(1 + (expert * 3 + place_of(shard)) * longest + row);
}

std::vector<ExpertTensorPattern> patterns_of(const DiskLayout& layout, bool has_bias,
                                             const std::string& modules) {
  std::vector<ExpertTensorPattern> patterns;
  for (const Projection& p : projections(layout)) {
    ExpertTensorPattern pattern;
    pattern.module = modules + (layout.is_stacked ? "" : "{expert}.") + p.name;
    pattern.bias_suffix = has_bias ? ".bias" : "";
    pattern.shard = p.shard;
    pattern.is_stacked = layout.is_stacked;
    pattern.is_flattened = layout.is_flattened;
    pattern.is_transposed = p.is_transposed && !layout.orientation_from_shape;
    pattern.is_interleaved = layout.is_interleaved;
    pattern.is_up_first = layout.is_up_first;
    pattern.orientation_from_shape = layout.orientation_from_shape;
    patterns.push_back(pattern);
  }
  return patterns;
}

std::vector<StoredTensor> store(const DiskLayout& layout, const ExpertSizes& sizes,
                                IntermediateRange range, const std::string& modules) {
  const Writer writer(layout, sizes, range);
  std::vector<StoredTensor> tensors;
  for (const Projection& p : projections(layout)) {
    const std::int64_t num_tensors = layout.is_stacked ? 1 : sizes.num_experts;
    for (std::int64_t t = 0; t < num_tensors; ++t) {
      const std::string module =
          modules + (layout.is_stacked ? "" : std::to_string(t) + ".") + p.name;
      StoredTensor weight{module + ".weight", writer.matrix_shape(p), {}};
      StoredTensor bias{module + ".bias", writer.bias_shape(p), {}};
      for (std::int64_t e = t; e < (layout.is_stacked ? sizes.num_experts : t + 1); ++e) {
        writer.add_matrix(p, e, weight.numbers);
        writer.add_bias(p, e, bias.numbers);
      }
      tensors.push_back(std::move(weight));
      if (sizes.has_bias) tensors.push_back(std::move(bias));
    }
  }
  return tensors;
}

}  // namespace fusedmoe::test
