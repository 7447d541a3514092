// Weights and batches for tests: made once, handed to the library as typed bytes and to the naive
// layer as doubles of the same values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fusedmoe/layer.h"
#include "reference/naive_moe.h"

namespace fusedmoe::test {

/// Reproducible numbers, the same on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::uint64_t next() noexcept;
  /// In [0, bound).
  std::int64_t below(std::int64_t bound) noexcept;
  double uniform() noexcept;  ///< in [0, 1)
  double normal() noexcept;   ///< mean 0, variance 1, bounded

 private:
  std::uint64_t state_;
};

/// Bytes with NaN (0xFF) guards on both sides: reading past the ends spoils a result, writing past
/// them breaks `guards_intact`.
class GuardedBytes {
 public:
  GuardedBytes() = default;
  explicit GuardedBytes(std::size_t num_bytes) : bytes_(num_bytes + 2 * kGuard, kFill) {}
  std::byte* data() noexcept { return bytes_.data() + kGuard; }
  const std::byte* data() const noexcept { return bytes_.data() + kGuard; }
  std::size_t size() const noexcept { return bytes_.empty() ? 0 : bytes_.size() - 2 * kGuard; }
  std::span<const std::byte> span() const noexcept { return {data(), size()}; }
  bool empty() const noexcept { return bytes_.empty(); }
  bool guards_intact() const noexcept;

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::byte kFill{0xFF};
  std::vector<std::byte> bytes_;
};

/// Typed elements from doubles (rounded through f32), and back.
GuardedBytes to_bytes(std::span<const double> values, DType dtype);
std::vector<double> to_doubles(std::span<const std::byte> bytes, DType dtype);

/// One expert of the whole model, before any split between ranks.
struct ExpertData {
  GuardedBytes w1, w3, w2;
  std::vector<float> b1, b3, b2;
};

struct LayerData {
  FusedMoEConfig config;            ///< of one rank; weights below are those of the whole model
  std::vector<ExpertData> experts;  ///< logical experts, then fused shared ones
};

/// Normal weights of variance 1 / fan-in; biases, when there are any, of deviation 1/4.
LayerData random_layer(const FusedMoEConfig& config, std::uint64_t seed);
/// Gate and up weights all 1 / hidden_size, down weights of expert e all (e + 1) /
/// intermediate_size: ones in give (e + 1) * silu(1) in every column. Exact in bf16 for powers of
/// two.
LayerData const_expert_layer(const FusedMoEConfig& config);

/// The tensors of a logical expert (or fused shared one) for the rank of `data.config`: rows of w1
/// and w3, columns of w2 of its tensor-parallel part; b2 on the first such rank only.
class ExpertSlice {
 public:
  ExpertSlice(const LayerData& data, std::int64_t expert);
  const ExpertTensors& tensors() const noexcept { return tensors_; }

 private:
  std::vector<float> zeros_;
  ExpertTensors tensors_;
};

naive::Format format_of(DType dtype);
naive::Activation to_naive(const ActivationConfig& activation);
naive::Layer to_naive(const LayerData& data);

/// Hidden states and a choice of experts.
struct BatchData {
  DType dtype = DType::kF32;
  std::int64_t num_tokens = 0;
  std::int64_t hidden_size = 0;
  std::int64_t top_k = 0;
  GuardedBytes hidden;                 ///< [T, H]
  std::vector<std::int32_t> topk_ids;  ///< [T, k]
  std::vector<float> topk_weights;     ///< [T, k]

  TensorView hidden_view() const;
  TopKView topk() const;
};

enum class Routing { kUniform, kZipf, kAllToOne, kAbsentIds, kDuplicates };

struct BatchOptions {
  std::int64_t num_tokens = 20;
  Routing routing = Routing::kUniform;
  double outlier = 0.0;  ///< every 97th hidden value is this many times larger; 0: none
};

BatchData random_batch(const FusedMoEConfig& config, const BatchOptions& options,
                       std::uint64_t seed);
/// All hidden values `value`, ids and weights as given, row-major.
BatchData constant_batch(const FusedMoEConfig& config, double value, std::vector<std::int32_t> ids,
                         std::vector<float> weights);
/// Tokens of `batch` in the order of `tokens`.
BatchData take_tokens(const BatchData& batch, std::span<const std::int64_t> tokens);
naive::Batch to_naive(const BatchData& batch);

}  // namespace fusedmoe::test
