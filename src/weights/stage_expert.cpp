#include "weights/stage_expert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/half.h"
#include "weights/dequantize.h"
#include "weights/place.h"

namespace fusedmoe {
namespace {

struct ShardFields {
  ExpertShard shard;
  MatrixView ExpertTensors::*matrix;
  std::span<const float> ExpertTensors::*bias;
};
constexpr std::array<ShardFields, 3> kShardFields = {{
    {ExpertShard::kW1, &ExpertTensors::w1, &ExpertTensors::b1},
    {ExpertShard::kW3, &ExpertTensors::w3, &ExpertTensors::b3},
    {ExpertShard::kW2, &ExpertTensors::w2, &ExpertTensors::b2},
}};

struct Sizes {
  std::size_t matrix_bytes = 0;
  std::size_t biases = 0;
};

Sizes sizes_of(const ExpertLoadRequest& request, std::int64_t intermediate) {
  const auto h = static_cast<std::size_t>(request.hidden_size);
  const auto i = static_cast<std::size_t>(intermediate);
  const std::size_t num_inputs = request.is_gated ? 2 : 1;
  const auto element = static_cast<std::size_t>(dtype_bits(request.weight_dtype)) / 8;
  return {request.quant->scheme.is_quantized() ? h * i * (num_inputs + 1) * element : 0,
          request.has_bias ? num_inputs * i + h : 0};
}

const ShardSlice* find(const ExpertSlices& slices, ExpertShard shard, ParamRole role) {
  const auto found = slices.find({shard, role});
  return found == slices.end() ? nullptr : found->second;
}

}  // namespace

ExpertStage::ExpertStage(const Checkpoint& checkpoint, const ExpertLoadRequest& request)
    : checkpoint_(checkpoint), request_(request) {
  const Sizes sizes = sizes_of(request, request.intermediate_size / request.parallel.tp_size);
  matrices_.resize(sizes.matrix_bytes);
  biases_.resize(sizes.biases);
}

std::uint64_t ExpertStage::bytes_needed(const ExpertLoadRequest& request,
                                        std::int64_t intermediate) {
  const Sizes sizes = sizes_of(request, intermediate);
  return sizes.matrix_bytes + sizes.biases * sizeof(float);
}

ExpertTensors ExpertStage::stage(const ExpertSlices& slices, std::string& problem) {
  matrix_bytes_used_ = 0;
  biases_used_ = 0;
  num_zero_scales_ = 0;
  ExpertTensors tensors;
  for (const ShardFields& fields : kShardFields) {
    const ShardSlice* weight = find(slices, fields.shard, ParamRole::kWeight);
    const ShardSlice* scale = find(slices, fields.shard, ParamRole::kWeightScale);
    const ShardSlice* bias = find(slices, fields.shard, ParamRole::kBias);
    const ShardSlice* input_scale = find(slices, fields.shard, ParamRole::kInputScale);
    if (weight == nullptr) continue;  // w3 of an expert without a gate
    if (input_scale != nullptr) problem = check_input_scale(*input_scale);
    if (problem.empty()) {
      tensors.*fields.matrix =
          scale == nullptr ? view_of(*weight) : dequantized(*weight, *scale, problem);
    }
    if (problem.empty() && bias != nullptr) tensors.*fields.bias = read_bias(*bias);
    if (problem.empty()) continue;
    problem += place_of(checkpoint_, request_, weight->tensor);
    return {};
  }
  return tensors;
}

TensorView ExpertStage::tensor_of(const ShardSlice& slice) const {
  return checkpoint_.view(*checkpoint_.find(slice.tensor));
}

// Every thread of a plain file reads the mapping itself: a strided view, no copy.
MatrixView ExpertStage::view_of(const ShardSlice& s) const {
  const TensorView tensor = tensor_of(s);
  const std::int64_t base = s.stacked_index * s.tensor_rows * s.tensor_cols;
  const std::int64_t row = s.is_transposed ? 1 : s.tensor_cols;
  const std::int64_t col = s.is_transposed ? s.tensor_cols : 1;
  const std::int64_t first = base + s.first_row * row + s.first_col * col;
  const auto* data =
      static_cast<const std::byte*>(tensor.data) + first * (dtype_bits(tensor.dtype) / 8);
  return {data, tensor.dtype, s.rows, s.cols, row * s.row_step, col};
}

MatrixView ExpertStage::dequantized(const ShardSlice& s, const ShardSlice& scale,
                                    std::string& problem) {
  std::byte* out = matrices_.data() + matrix_bytes_used_;
  matrix_bytes_used_ += static_cast<std::size_t>(s.rows * s.cols) *
                        static_cast<std::size_t>(dtype_bits(request_.weight_dtype) / 8);
  std::int64_t zero_scales = 0;
  problem = dequantize(request_.quant->scheme, {tensor_of(s), tensor_of(scale)}, s,
                       request_.weight_dtype, out, &zero_scales);
  num_zero_scales_ += zero_scales;
  return {out, request_.weight_dtype, s.rows, s.cols, s.cols, 1};
}

std::span<const float> ExpertStage::read_bias(const ShardSlice& s) {
  const TensorView tensor = tensor_of(s);
  const std::span<float> to(biases_.data() + biases_used_, static_cast<std::size_t>(s.rows));
  biases_used_ += to.size();
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::int64_t at = s.first_row + r * s.row_step;
    to[static_cast<std::size_t>(r)] =
        load_as_f32(tensor.data, tensor.dtype, s.stacked_index * s.tensor_rows + at);
  }
  // The down bias is added once over the tensor-parallel ranks: by the first.
  if (s.shard == ExpertShard::kW2 && request_.parallel.tp_rank > 0) {
    std::ranges::fill(to, 0.0F);
  }
  return to;
}

// Activations stay unquantized here; a broken scale is a broken file all the same.
std::string ExpertStage::check_input_scale(const ShardSlice& s) const {
  const TensorView tensor = tensor_of(s);
  const float value = load_as_f32(tensor.data, tensor.dtype, s.stacked_index);
  if (std::isfinite(value) && value > 0.0F) return {};
  return fmt::format("{}: {} input_scale of expert {}: expected a finite number > 0, got {}",
                     s.tensor, shard_name(s.shard), s.logical_expert, value);
}

}  // namespace fusedmoe
