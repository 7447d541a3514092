// Arithmetic avx512_bf16: vdpbf16ps on packed pairs.
//
// Computes   sums[r][n] = chain over k pairs of vdpbf16ps, from +0
// Shapes     x block [k / 2][rows] pairs of bf16; panel [k / 2][64] pairs; sums [rows][64] f32
// Mapping    up to 6 rows x 64 columns in registers: 24 sums; x of a block stays in L1 and the
// panel is
//            one stream (12 x 32 reads it in halves and was 15-25 % slower on Zen 4)
// Accuracy   products exact, sums f32 (round to nearest even, subnormals flushed by the
// instruction) Source     Intel 64 and IA-32 architectures manual, VDPBF16PS. It starts every clock
// on Zen 4 and
//            every second clock on Sapphire Rapids, where widening is as fast
//            (docs/performance.md).
#include "arch/simd/avx512.h"
#include "layer/experts/cpu/ops_tables.h"
#include "layer/experts/cpu/panel_body.inl"

namespace fusedmoe::cpu {
namespace {

struct Bf16Dot {
  using S = Avx512Lanes;
  static constexpr int kMaxRows = 6;
  static constexpr int kPairBytes = 4 * static_cast<int>(kPanelColumns);

  static std::int64_t row_bytes(std::int64_t k_padded) { return k_padded * 2; }

  static void put(const ActivationBlock& block, int row, std::int64_t k, float value) {
    const std::int64_t at = ((k / 2) * block.rows + row) * 2 + (k & 1);
    const __m128i word = _mm_cvtsi32_si128(_mm_extract_ps(_mm_set_ss(value), 0));
    reinterpret_cast<std::uint16_t*>(block.data)[at] =
        static_cast<std::uint16_t>(_mm_extract_epi16(word, 1));  // value is exact in bf16
  }

  static void put_lanes(const ActivationBlock& block, int row, std::int64_t k, S::F value) {
    alignas(32) std::uint32_t words[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(words), S::narrow_exact_bf16(value));
    std::uint32_t* to = reinterpret_cast<std::uint32_t*>(block.data) + k / 2 * block.rows + row;
    for (int i = 0; i < 8; ++i) to[i * block.rows] = words[i];
  }

  /// The hidden type is bf16: pairs are moved as they are.
  static std::int64_t pack_row(const ActivationBlock& block, int row, const std::byte* from, DType,
                               std::int64_t count) {
    std::uint32_t* to = reinterpret_cast<std::uint32_t*>(block.data) + row;
    for (std::int64_t pair = 0; pair < count / 2; ++pair) {
      __builtin_memcpy(to + pair * block.rows, from + pair * 4, 4);
    }
    return count / 2 * 2;
  }

  static void multiply(const ActivationBlock& x, const std::byte* panel, float* sums) {
    Dispatch<1>::run(x, panel, sums);
  }

 private:
  template <int R, bool kEnd = (R > kMaxRows)>
  struct Dispatch {
    static void run(const ActivationBlock& x, const std::byte* panel, float* sums) {
      if (x.rows != R) {
        Dispatch<R + 1>::run(x, panel, sums);
        return;
      }
      multiply_rows<R>(reinterpret_cast<const std::int32_t*>(x.data), panel, x.k_padded, sums);
    }
  };
  template <int R>
  struct Dispatch<R, true> {
    static void run(const ActivationBlock&, const std::byte*, float*) {}
  };

  template <int R>
  static void multiply_rows(const std::int32_t* x, const std::byte* at, std::int64_t k_padded,
                            float* sums) {
    constexpr int V = static_cast<int>(kPanelColumns) / S::kLanes;
    __m512 sum[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[r][v] = _mm512_setzero_ps();
    }
    for (std::int64_t k = 0; k < k_padded; k += 2, at += kPairBytes, x += R) {
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) __builtin_prefetch(at + kPrefetchAhead + v * 64);
      __m512bh w[V];
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) w[v] = (__m512bh)_mm512_loadu_si512(at + v * 64);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m512bh a = (__m512bh)_mm512_set1_epi32(x[r]);
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], w[v], a);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) S::store(sums + r * kPanelColumns + v * 16, sum[r][v]);
    }
  }
};

}  // namespace

const Ops* avx512_bf16_ops() {
  static constexpr Ops kOps = make_ops<Avx512Lanes, Bf16Dot>();
  return &kOps;
}

}  // namespace fusedmoe::cpu
