#include "golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "fusedmoe/error.h"

namespace fusedmoe::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::span<const float> floats_of(const OwnedTensor& tensor) {
  return {tensor.floats(), static_cast<std::size_t>(tensor.shape.num_elements())};
}

// One recorded tensor, checked: [T, ...] of `dtype`.
std::optional<OwnedTensor> read_recorded(const Checkpoint& file, const std::string& name,
                                         DType dtype, std::int64_t num_tokens) {
  if (file.find(name) == nullptr) return std::nullopt;
  OwnedTensor tensor = read_tensor(file, name);
  const bool fits = tensor.dtype == dtype && tensor.shape.rank() >= 1 &&
                    (num_tokens < 0 || tensor.shape[0] == num_tokens);
  if (!fits) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("[cli] {}: expected {} with {} rows, got {} {} ({}), record it again",
                            name, dtype_name(dtype), num_tokens, dtype_name(tensor.dtype),
                            tensor.shape.to_string(), file.path().string()));
  }
  return tensor;
}

// Slots of one row as (expert, weight), sorted: choices are compared as sets.
std::vector<std::pair<std::int32_t, float>> sorted_slots(const std::int32_t* ids,
                                                         const float* weights, std::int64_t k) {
  std::vector<std::pair<std::int32_t, float>> slots;
  for (std::int64_t j = 0; j < k; ++j) slots.emplace_back(ids[j], weights[j]);
  std::sort(slots.begin(), slots.end());
  return slots;
}

struct RowSlots {
  std::vector<std::pair<std::int32_t, float>> got;
  std::vector<std::pair<std::int32_t, float>> expected;

  bool same_experts() const {
    return std::equal(got.begin(), got.end(), expected.begin(), expected.end(),
                      [](const auto& a, const auto& b) { return a.first == b.first; });
  }
};

// Fused shared experts are columns of ours after the recorded ones: `k` is the recorded count.
RowSlots slots_of_row(const GoldenLayer& golden, const BlockResult& result, std::int64_t row) {
  const std::int64_t k = golden.topk_ids->shape[1];
  const std::int64_t num_rows = golden.topk_ids->shape[0];
  const std::int64_t our_k = static_cast<std::int64_t>(result.topk_ids.size()) / num_rows;
  const auto* ids = reinterpret_cast<const std::int32_t*>(golden.topk_ids->bytes.data());
  return {
      sorted_slots(&result.topk_ids[static_cast<std::size_t>(row * our_k)],
                   &result.topk_weights[static_cast<std::size_t>(row * our_k)], std::min(k, our_k)),
      sorted_slots(ids + row * k, golden.topk_weights->floats() + row * k, k)};
}

Check check_choices(const GoldenLayer& golden, const BlockResult& result, double tolerance) {
  Check check{.name = "topk_weights", .tolerance = tolerance, .rows = golden.topk_ids->shape[0]};
  std::int64_t wrong_choices = 0;
  for (std::int64_t row = 0; row < check.rows; ++row) {
    const RowSlots slots = slots_of_row(golden, result, row);
    if (!slots.same_experts()) {
      ++wrong_choices;
      continue;
    }
    std::vector<float> got;
    std::vector<float> expected;
    for (const auto& slot : slots.got) got.push_back(slot.second);
    for (const auto& slot : slots.expected) expected.push_back(slot.second);
    check.error = std::max(check.error, worst_row_error(got, expected, 1));
  }
  if (wrong_choices > 0) {
    check.error = kInfinity;
    check.note = fmt::format("{} rows chose other experts", wrong_choices);
  }
  return check;
}

Check check_rows(const std::string& name, std::span<const float> got, const OwnedTensor& expected,
                 double tolerance) {
  return {.name = name,
          .error = worst_row_error(got, floats_of(expected), expected.shape[0]),
          .tolerance = tolerance,
          .rows = expected.shape[0],
          .note = {}};
}

}  // namespace

BlockInputs golden_inputs(const GoldenLayer& golden, DType hidden_dtype) {
  BlockInputs inputs{.hidden_states = converted(golden.input.view(), hidden_dtype)};
  inputs.input_ids = golden.input_ids;
  return inputs;
}

std::optional<Checkpoint> open_golden(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "golden.safetensors";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return Checkpoint::open(path);
}

std::vector<int> recorded_layers(const Checkpoint& file) {
  constexpr std::string_view kBefore = "layers.";
  constexpr std::string_view kAfter = ".input";
  std::vector<int> layers;
  for (const TensorInfo& tensor : file.tensors()) {
    const std::string& name = tensor.name;
    if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) continue;
    int layer = -1;
    const char* end = name.data() + name.size() - kAfter.size();
    const auto parsed = std::from_chars(name.data() + kBefore.size(), end, layer);
    if (parsed.ec == std::errc{} && parsed.ptr == end) layers.push_back(layer);
  }
  std::sort(layers.begin(), layers.end());
  return layers;
}

std::optional<GoldenLayer> read_golden_layer(const Checkpoint& file, int layer) {
  const auto name = [layer](const char* part) { return fmt::format("layers.{}.{}", layer, part); };
  std::optional<OwnedTensor> input = read_recorded(file, name("input"), DType::kF32, -1);
  if (!input) return std::nullopt;
  GoldenLayer golden{.input = std::move(*input)};
  const std::int64_t num_tokens = golden.input.shape[0];
  const auto recorded = [&](const char* part, DType dtype) {
    return read_recorded(file, name(part), dtype, num_tokens);
  };
  golden.input_ids = recorded("input_ids", DType::kI32);
  golden.output = recorded("output", DType::kF32);
  golden.routed_only = recorded("routed_only", DType::kF32);
  golden.router_logits = recorded("router_logits", DType::kF32);
  golden.topk_ids = recorded("topk_ids", DType::kI32);
  golden.topk_weights = recorded("topk_weights", DType::kF32);
  golden.has_bf16 = recorded("output_bf16", DType::kBF16).has_value();
  return golden;
}

double worst_row_error(std::span<const float> got, std::span<const float> expected,
                       std::int64_t num_rows, const std::vector<bool>& rows) {
  if (got.size() != expected.size()) return kInfinity;
  if (num_rows == 0) return 0.0;
  const std::size_t width = got.size() / static_cast<std::size_t>(num_rows);
  double worst = 0.0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(num_rows); ++row) {
    if (!rows.empty() && !rows[row]) continue;
    double difference = 0.0;
    double scale = 0.0;
    for (std::size_t c = row * width; c < (row + 1) * width; ++c) {
      if (!std::isfinite(got[c])) return kInfinity;
      difference = std::max(difference, std::abs(static_cast<double>(got[c]) - expected[c]));
      scale = std::max(scale, std::abs(static_cast<double>(expected[c])));
    }
    worst = std::max(worst, scale > 0.0 ? difference / scale : difference);
  }
  return worst;
}

std::vector<Check> check_f32(const GoldenLayer& golden, const BlockResult& result,
                             double tolerance) {
  std::vector<Check> checks;
  if (golden.output) {
    checks.push_back(
        check_rows("output", floats_of(result.hidden_states), *golden.output, tolerance));
  }
  if (golden.router_logits) {
    checks.push_back(
        check_rows("router_logits", result.router_logits, *golden.router_logits, tolerance));
  }
  if (golden.topk_ids && golden.topk_weights) {
    checks.push_back(check_choices(golden, result, tolerance));
  }
  return checks;
}

Check check_routed_only(const GoldenLayer& golden, const OwnedTensor& output, double tolerance) {
  return check_rows("routed_only", floats_of(output), *golden.routed_only, tolerance);
}

Check check_bf16(const GoldenLayer& golden, const BlockResult& result, double tolerance) {
  const std::int64_t num_rows = golden.output->shape[0];
  // bf16 can move a token whose scores nearly tie; more than a few is a fault.
  const std::int64_t allowed = std::max<std::int64_t>(2, num_rows / 50);
  std::vector<bool> is_same(static_cast<std::size_t>(num_rows), false);
  std::int64_t moved = 0;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    is_same[static_cast<std::size_t>(row)] = slots_of_row(golden, result, row).same_experts();
    if (!is_same[static_cast<std::size_t>(row)]) ++moved;
  }
  const OwnedTensor output = converted(result.hidden_states.view(), DType::kF32);
  Check check{.name = "output_bf16", .tolerance = tolerance, .rows = num_rows - moved};
  check.error = worst_row_error(floats_of(output), floats_of(*golden.output), num_rows, is_same);
  if (moved > 0) check.note = fmt::format("{} rows chose other experts", moved);
  if (moved > allowed) check.error = kInfinity;
  return check;
}

}  // namespace fusedmoe::cli
