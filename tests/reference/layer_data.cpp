#include "reference/layer_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/half.h"

namespace fusedmoe::test {
namespace {

std::size_t element_bytes(DType dtype) { return static_cast<std::size_t>(dtype_bits(dtype) / 8); }

GuardedBytes make_matrix(std::int64_t size, DType dtype, const std::function<double()>& value) {
  GuardedBytes bytes(static_cast<std::size_t>(size) * element_bytes(dtype));
  for (std::int64_t i = 0; i < size; ++i) {
    store_from_f32(bytes.data(), dtype, i, static_cast<float>(value()));
  }
  return bytes;
}

std::vector<float> make_bias(std::int64_t size, const std::function<double()>& value) {
  std::vector<float> bias(static_cast<std::size_t>(size));
  for (float& b : bias) b = static_cast<float>(value());
  return bias;
}

std::int64_t num_weighted(const FusedMoEConfig& c) {
  return c.num_experts + c.num_fused_shared_experts;
}

std::int32_t choose_id(const FusedMoEConfig& c, Routing routing, Random& random) {
  const std::int64_t experts = num_weighted(c) + c.num_identity_experts;
  switch (routing) {
    case Routing::kAllToOne:
      return static_cast<std::int32_t>(experts - 1);
    case Routing::kZipf: {  // rank r with weight 1 / r, by inverting the harmonic sum
      const double u = random.uniform();
      const double rank = std::exp(u * std::log(static_cast<double>(experts) + 1.0));
      return static_cast<std::int32_t>(
          std::min<std::int64_t>(static_cast<std::int64_t>(rank), experts) - 1);
    }
    case Routing::kAbsentIds: {
      const std::int64_t strange = random.below(4);
      if (strange == 0) return -1;
      if (strange == 1 && random.below(2) == 0) return static_cast<std::int32_t>(experts);
      break;
    }
    default:
      break;
  }
  return static_cast<std::int32_t>(random.below(experts));
}

void choose_row(const FusedMoEConfig& c, Routing routing, Random& random, std::int32_t* ids) {
  const std::int64_t experts = num_weighted(c) + c.num_identity_experts;
  const bool distinct = routing == Routing::kUniform && c.top_k <= experts;
  for (std::int64_t j = 0; j < c.top_k; ++j) {
    do {
      ids[j] = choose_id(c, routing, random);
    } while (distinct && std::find(ids, ids + j, ids[j]) != ids + j);
    if (routing == Routing::kDuplicates && j > 0 && random.below(2) == 0) ids[j] = ids[0];
  }
}

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

std::uint64_t Random::next() noexcept {  // splitmix64
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::int64_t Random::below(std::int64_t bound) noexcept {
  return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
}

double Random::uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

double Random::normal() noexcept {  // the sum of four 16-bit uniforms has variance 1/3
  const std::uint64_t bits = next();
  double sum = -2.0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>((bits >> (16 * i)) & 0xFFFF) * 0x1p-16;
  return sum * std::sqrt(3.0);
}

bool GuardedBytes::guards_intact() const noexcept {
  const auto intact = [](std::byte b) { return b == kFill; };
  return bytes_.empty() || (std::all_of(bytes_.begin(), bytes_.begin() + kGuard, intact) &&
                            std::all_of(bytes_.end() - kGuard, bytes_.end(), intact));
}

GuardedBytes to_bytes(std::span<const double> values, DType dtype) {
  std::size_t next = 0;
  return make_matrix(static_cast<std::int64_t>(values.size()), dtype,
                     [&] { return values[next++]; });
}

std::vector<double> to_doubles(std::span<const std::byte> bytes, DType dtype) {
  std::vector<double> values(bytes.size() / element_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(load_as_f32(bytes.data(), dtype, static_cast<std::int64_t>(i)));
  }
  return values;
}

LayerData random_layer(const FusedMoEConfig& config, std::uint64_t seed) {
  LayerData data{config, {}};
  const std::int64_t h = config.hidden_size;
  const std::int64_t i = config.intermediate_size;
  const bool gated = config.activation.is_gated;
  Random random(seed);
  const auto normal = [&](double deviation) {
    return [&random, deviation] { return random.normal() * deviation; };
  };
  const double in = 1.0 / std::sqrt(static_cast<double>(h));
  const double inner = 1.0 / std::sqrt(static_cast<double>(i));
  for (std::int64_t e = 0; e < num_weighted(config); ++e) {
    ExpertData expert;
    expert.w1 = make_matrix(h * i, config.weight_dtype, normal(in));
    if (gated) expert.w3 = make_matrix(h * i, config.weight_dtype, normal(in));
    expert.w2 = make_matrix(h * i, config.weight_dtype, normal(inner));
    if (config.has_bias) {
      expert.b1 = make_bias(i, normal(0.25));
      if (gated) expert.b3 = make_bias(i, normal(0.25));
      expert.b2 = make_bias(h, normal(0.25));
    }
    data.experts.push_back(std::move(expert));
  }
  return data;
}

LayerData const_expert_layer(const FusedMoEConfig& config) {
  LayerData data{config, {}};
  const std::int64_t h = config.hidden_size;
  const std::int64_t i = config.intermediate_size;
  for (std::int64_t e = 0; e < num_weighted(config); ++e) {
    ExpertData expert;
    expert.w1 =
        make_matrix(h * i, config.weight_dtype, [&] { return 1.0 / static_cast<double>(h); });
    expert.w3 =
        make_matrix(h * i, config.weight_dtype, [&] { return 1.0 / static_cast<double>(h); });
    expert.w2 = make_matrix(h * i, config.weight_dtype,
                            [&] { return static_cast<double>(e + 1) / static_cast<double>(i); });
    data.experts.push_back(std::move(expert));
  }
  return data;
}

ExpertSlice::ExpertSlice(const LayerData& data, std::int64_t expert) {
  const FusedMoEConfig& c = data.config;
  const ExpertData& whole = data.experts[static_cast<std::size_t>(expert)];
  const std::int64_t h = c.hidden_size;
  const std::int64_t i = c.intermediate_size;
  const std::int64_t part = i / c.parallel.tp_size;
  const std::int64_t first = part * c.parallel.tp_rank;
  const auto bytes = static_cast<std::int64_t>(element_bytes(c.weight_dtype));
  tensors_.w1 = {whole.w1.data() + first * h * bytes, c.weight_dtype, part, h, h, 1};
  tensors_.w2 = {whole.w2.data() + first * bytes, c.weight_dtype, h, part, i, 1};
  const auto slice = [&](const std::vector<float>& bias) {
    return std::span<const float>(bias).subspan(static_cast<std::size_t>(first),
                                                static_cast<std::size_t>(part));
  };
  if (c.activation.is_gated) {
    tensors_.w3 = {whole.w3.data() + first * h * bytes, c.weight_dtype, part, h, h, 1};
    if (c.has_bias) tensors_.b3 = slice(whole.b3);
  }
  if (!c.has_bias) return;
  tensors_.b1 = slice(whole.b1);
  zeros_.assign(static_cast<std::size_t>(h), 0.0F);
  tensors_.b2 = c.parallel.tp_rank == 0 ? whole.b2 : zeros_;
}

naive::Format format_of(DType dtype) {
  if (dtype == DType::kBF16) return naive::kBf16;
  return dtype == DType::kF16 ? naive::kF16 : naive::kF32;
}

naive::Activation to_naive(const ActivationConfig& activation) {
  naive::Nonlinearity kind = naive::Nonlinearity::kSilu;
  switch (activation.kind) {
    case Activation::kSilu:
      break;
    case Activation::kGelu:
      kind = naive::Nonlinearity::kGelu;
      break;
    case Activation::kGeluTanh:
      kind = naive::Nonlinearity::kGeluTanh;
      break;
    case Activation::kRelu2:
      kind = naive::Nonlinearity::kRelu2;
      break;
    case Activation::kSwigluOai:
      kind = naive::Nonlinearity::kSwigluOai;
      break;
  }
  return {kind, activation.is_gated, static_cast<double>(activation.alpha),
          static_cast<double>(activation.limit)};
}

naive::Layer to_naive(const LayerData& data) {
  const FusedMoEConfig& c = data.config;
  naive::Layer layer;
  layer.hidden_size = c.hidden_size;
  layer.activation = to_naive(c.activation);
  layer.num_identity_experts = c.num_identity_experts;
  layer.weight_on_input = c.apply_router_weight_on_input;
  layer.factor = static_cast<double>(c.routed_scaling_factor);
  layer.format = format_of(c.hidden_dtype);
  for (const ExpertData& e : data.experts) {
    const auto matrix = [&](const GuardedBytes& w) { return to_doubles(w.span(), c.weight_dtype); };
    layer.experts.push_back({matrix(e.w1), e.w3.empty() ? std::vector<double>{} : matrix(e.w3),
                             matrix(e.w2), widen(e.b1), widen(e.b3), widen(e.b2)});
  }
  return layer;
}

TensorView BatchData::hidden_view() const {
  return {hidden.data(), dtype, {num_tokens, hidden_size}};
}

TopKView BatchData::topk() const {
  return {{topk_ids.data(), DType::kI32, {num_tokens, top_k}},
          {topk_weights.data(), DType::kF32, {num_tokens, top_k}}};
}

BatchData random_batch(const FusedMoEConfig& config, const BatchOptions& options,
                       std::uint64_t seed) {
  Random random(seed);
  BatchData batch{
      config.hidden_dtype, options.num_tokens, config.hidden_size, config.top_k, {}, {}, {}};
  std::int64_t index = 0;
  batch.hidden = make_matrix(options.num_tokens * config.hidden_size, batch.dtype, [&] {
    const bool is_outlier = options.outlier != 0.0 && index++ % 97 == 0;
    return random.normal() * (is_outlier ? options.outlier : 1.0);
  });
  const auto num_slots = static_cast<std::size_t>(options.num_tokens * config.top_k);
  batch.topk_ids.resize(num_slots);
  batch.topk_weights.resize(num_slots);
  for (std::int64_t t = 0; t < options.num_tokens; ++t) {
    choose_row(config, options.routing, random, batch.topk_ids.data() + t * config.top_k);
  }
  for (float& w : batch.topk_weights) {
    w = static_cast<float>((0.25 + random.uniform()) / static_cast<double>(config.top_k));
  }
  return batch;
}

BatchData constant_batch(const FusedMoEConfig& config, double value, std::vector<std::int32_t> ids,
                         std::vector<float> weights) {
  const auto num_tokens = static_cast<std::int64_t>(ids.size()) / config.top_k;
  return {config.hidden_dtype,
          num_tokens,
          config.hidden_size,
          config.top_k,
          make_matrix(num_tokens * config.hidden_size, config.hidden_dtype, [&] { return value; }),
          std::move(ids),
          std::move(weights)};
}

BatchData take_tokens(const BatchData& batch, std::span<const std::int64_t> tokens) {
  const std::size_t row = static_cast<std::size_t>(batch.hidden_size) * element_bytes(batch.dtype);
  BatchData taken{batch.dtype, static_cast<std::int64_t>(tokens.size()), batch.hidden_size,
                  batch.top_k, GuardedBytes(tokens.size() * row),        {},
                  {}};
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto from = static_cast<std::size_t>(tokens[t]);
    std::memcpy(taken.hidden.data() + t * row, batch.hidden.data() + from * row, row);
    const auto slot = static_cast<std::ptrdiff_t>(tokens[t] * batch.top_k);
    taken.topk_ids.insert(taken.topk_ids.end(), batch.topk_ids.begin() + slot,
                          batch.topk_ids.begin() + slot + batch.top_k);
    taken.topk_weights.insert(taken.topk_weights.end(), batch.topk_weights.begin() + slot,
                              batch.topk_weights.begin() + slot + batch.top_k);
  }
  return taken;
}

naive::Batch to_naive(const BatchData& batch) {
  return {batch.num_tokens,
          batch.top_k,
          to_doubles(batch.hidden.span(), batch.dtype),
          {batch.topk_ids.begin(), batch.topk_ids.end()},
          widen(batch.topk_weights)};
}

}  // namespace fusedmoe::test
