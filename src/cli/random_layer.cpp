#include "random_layer.h"

#include <algorithm>
#include <cmath>

#include "parallel_for.h"

namespace fusedmoe::cli {
namespace {

// splitmix64: one well-mixed number for each index, so that any part can be made by any thread.
// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
std::uint64_t mix(std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// In [0, 1).
double unit(std::uint64_t index) { return static_cast<double>(mix(index) >> 11) * 0x1p-53; }

MatrixView matrix(const OwnedTensor& tensor) {
  return {.data = tensor.bytes.data(),
          .dtype = tensor.dtype,
          .rows = tensor.shape[0],
          .cols = tensor.shape[1],
          .row_stride = tensor.shape[1]};
}

// Draws without repetition: the experts with the k largest u^(1/w) are a weighted sample.
// Source: Efraimidis, Spirakis, "Weighted random sampling with a reservoir", 2006.
void draw_experts(RoutingPattern pattern, std::uint64_t seed, std::int64_t num_experts,
                  std::int64_t top_k, std::vector<std::pair<double, std::int32_t>>& keys,
                  std::int32_t* ids) {
  keys.clear();
  for (std::int64_t e = 0; e < num_experts; ++e) {
    const double weight = pattern == RoutingPattern::kZipf ? 1.0 / static_cast<double>(e + 1) : 1.0;
    const double u = unit(seed + static_cast<std::uint64_t>(e));
    keys.emplace_back(-std::log(u + 0x1p-60) / weight, static_cast<std::int32_t>(e));
  }
  std::partial_sort(keys.begin(), keys.begin() + top_k, keys.end());
  for (std::int64_t j = 0; j < top_k; ++j) ids[j] = keys[static_cast<std::size_t>(j)].second;
}

}  // namespace

OwnedTensor random_tensor(DType dtype, const Shape& shape, float scale, std::uint64_t seed,
                          Executor& executor) {
  constexpr std::size_t kChunk = 4096;
  OwnedTensor tensor = make_tensor(dtype, shape);
  const auto count = static_cast<std::size_t>(shape.num_elements());
  const auto element_bytes = static_cast<std::size_t>(dtype_bits(dtype) / 8);
  parallel_ranges(executor, (count + kChunk - 1) / kChunk,
                  [&](std::size_t first, std::size_t last) {
                    std::vector<float> values(kChunk);
                    for (std::size_t begin = first * kChunk; begin < std::min(last * kChunk, count);
                         begin += kChunk) {
                      const std::size_t n = std::min(kChunk, count - begin);
                      for (std::size_t i = 0; i < n; ++i) {
                        const double u = unit(seed + begin + i);
                        values[i] = scale * static_cast<float>(2.0 * u - 1.0);
                      }
                      const Shape part{static_cast<std::int64_t>(n)};
                      convert({values.data(), DType::kF32, part},
                              {tensor.bytes.data() + begin * element_bytes, dtype, part});
                    }
                  });
  return tensor;
}

void load_random_experts(FusedMoE& layer, Executor& executor) {
  const FusedMoEConfig& config = layer.config();
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t width = layer.intermediate_size_per_partition();
  // Uniform numbers of variance 1 / K keep activations of order 1.
  const float in_scale = std::sqrt(3.0F / static_cast<float>(hidden));
  const float out_scale = std::sqrt(3.0F / static_cast<float>(width));
  const OwnedTensor w1 = random_tensor(config.weight_dtype, {width, hidden}, in_scale, 1, executor);
  const OwnedTensor w3 = random_tensor(config.weight_dtype, {width, hidden}, in_scale,
                                       std::uint64_t{1} << 40, executor);
  const OwnedTensor w2 = random_tensor(config.weight_dtype, {hidden, width}, out_scale,
                                       std::uint64_t{1} << 41, executor);
  const std::vector<float> wide_bias(static_cast<std::size_t>(width), 0.01F);
  const std::vector<float> bias(static_cast<std::size_t>(hidden), 0.01F);
  ExpertTensors tensors{.w1 = matrix(w1), .w3 = {}, .w2 = matrix(w2), .b1 = {}, .b3 = {}, .b2 = {}};
  if (config.activation.is_gated) tensors.w3 = matrix(w3);
  if (config.has_bias) {
    tensors.b1 = wide_bias;
    tensors.b2 = bias;
    if (config.activation.is_gated) tensors.b3 = wide_bias;
  }
  parallel_ranges(executor, static_cast<std::size_t>(layer.num_local_experts()),
                  [&](std::size_t begin, std::size_t end) {
                    for (std::size_t e = begin; e < end; ++e) {
                      layer.load_expert(static_cast<std::int64_t>(e), tensors);
                    }
                  });
}

RandomChoices random_choices(RoutingPattern pattern, std::int64_t num_tokens,
                             std::int64_t num_experts, std::int64_t top_k, std::uint64_t seed) {
  const auto slots = static_cast<std::size_t>(num_tokens * top_k);
  RandomChoices choices{std::vector<std::int32_t>(slots),
                        std::vector<float>(slots, 1.0F / static_cast<float>(top_k))};
  std::vector<std::pair<double, std::int32_t>> keys;
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    const std::uint64_t token_seed = seed + static_cast<std::uint64_t>(t * num_experts);
    draw_experts(pattern, token_seed, num_experts, top_k, keys,
                 &choices.topk_ids[static_cast<std::size_t>(t * top_k)]);
  }
  return choices;
}

}  // namespace fusedmoe::cli
