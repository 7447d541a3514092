// The body of every CPU expert kernel, over a lane type S and an inner product P.
//
// Instance files (f32_avx512.cpp, ...) are compiled with their instruction set's flags. Everything
// here is in an anonymous namespace and nothing uses a standard template: a function shared between
// files could be linked from the one with the widest flags and stop a smaller processor.
//
// Bits     each output is one chain over k, ascending, from +0; lanes run over output columns. The
//          chain, the activation and the rounding points are the arithmetic's; rows per block,
//          columns per chunk and threads are not, and change no bit.
#include "arch/lane_math.h"
#include "layer/experts/cpu/ops.h"

namespace fusedmoe::cpu {
namespace {

// Sums of one block against one panel, in L1: [rows][64].
template <int kMaxRows>
struct PanelSums {
  alignas(64) float data[kMaxRows][kPanelColumns];
};

template <class S>
inline typename S::F load_rounded(const std::byte* row, DType dtype, std::int64_t column) {
  const std::byte* at = row + column * (dtype == DType::kF32 ? 4 : 2);
  if (dtype == DType::kF32) return S::load(reinterpret_cast<const float*>(at));
  if (dtype == DType::kBF16) return S::load_bf16(at);
  return S::load_f16(at);
}

template <class S>
inline void store_rounded(std::byte* row, DType dtype, std::int64_t column, typename S::F value) {
  std::byte* at = row + column * (dtype == DType::kF32 ? 4 : 2);
  if (dtype == DType::kF32) {
    S::store(reinterpret_cast<float*>(at), value);
  } else if (dtype == DType::kBF16) {
    S::store_bf16(at, value);
  } else {
    S::store_f16(at, value);
  }
}

template <class S>
inline typename S::F round_lanes(typename S::F value, DType dtype) {
  if (dtype == DType::kBF16) return S::round_bf16(value);
  if (dtype == DType::kF16) return S::round_f16(value);
  return value;
}

// A row in a local buffer, so that ragged ends need no masked loads and stores.
template <class S>
struct RaggedLanes {
  alignas(64) std::byte data[static_cast<std::size_t>(S::kLanes) * 4] = {};
};

inline void copy_bytes(std::byte* to, const std::byte* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

// act(g, u) for one vector of lanes; the formulas are in activation.h.
template <class S>
inline typename S::F activate(const ActivationConfig& config, typename S::F g, typename S::F u) {
  using F = typename S::F;
  if (config.limit > 0.0F && config.is_gated) {
    const F limit = S::set1(config.limit);
    g = S::min(limit, g);  // a NaN in g passes: x86 min returns its second operand
    u = S::min(limit, S::max(S::set1(-config.limit), u));
  }
  F act = g;
  switch (config.kind) {
    case Activation::kSilu:
      act = silu_f32<S>(g);
      break;
    case Activation::kGelu:
      act = gelu_erf_f32<S>(g);
      break;
    case Activation::kGeluTanh:
      act = gelu_tanh_f32<S>(g);
      break;
    case Activation::kRelu2: {
      const F positive = S::max(S::set1(0.0F), g);
      act = S::mul(positive, positive);
      break;
    }
    case Activation::kSwigluOai:
      act = S::mul(g, sigmoid_f32<S>(S::mul(S::set1(config.alpha), g)));
      return S::mul(act, S::add(u, S::set1(1.0F)));
  }
  return config.is_gated ? S::mul(act, u) : act;
}

template <class S, class P>
struct PanelKernel {
  using F = typename S::F;
  static constexpr int kLanes = S::kLanes;

  static std::int64_t row_bytes(std::int64_t k_padded) { return P::row_bytes(k_padded); }

  static void pack_rows(const PackRowsArgs& args) {
    for (int r = 0; r < args.block.rows; ++r) {
      std::int64_t k = P::pack_row(args.block, r, args.rows[r], args.dtype, args.k);
      if (k < args.k) {
        const int bytes = args.dtype == DType::kF32 ? 4 : 2;
        RaggedLanes<S> rest;
        copy_bytes(rest.data, args.rows[r] + k * bytes, (args.k - k) * bytes);
        alignas(64) float lanes[kLanes];
        S::store(lanes, load_rounded<S>(rest.data, args.dtype, 0));
        for (int i = 0; k < args.k; ++k, ++i) P::put(args.block, r, k, lanes[i]);
      }
      for (; k < args.block.k_padded; ++k) P::put(args.block, r, k, 0.0F);
    }
  }

  static void gate_up(const GateUpArgs& args) {
    PanelSums<P::kMaxRows> sums;
    P::multiply(args.x, args.panel, &sums.data[0][0]);
    const int columns = args.activation.is_gated ? static_cast<int>(kGatedColumns)
                                                 : static_cast<int>(kPanelColumns);
    for (int r = 0; r < args.x.rows; ++r) {
      for (int c = 0; c < columns; c += kLanes) {
        const F g = first_sums(args, sums.data[r], r, c);
        const F u = args.activation.is_gated
                        ? first_sums(args, sums.data[r], r, c + static_cast<int>(kGatedColumns))
                        : S::set1(0.0F);
        put_columns(args, r, c,
                    round_lanes<S>(activate<S>(args.activation, g, u), args.hidden_dtype));
      }
    }
  }

  static void down(const DownArgs& args) {
    PanelSums<P::kMaxRows> sums;
    P::multiply(args.a, args.panel, &sums.data[0][0]);
    for (int r = 0; r < args.a.rows; ++r) {
      for (int c = 0; c < args.out_columns; c += kLanes) {
        F value = S::load(&sums.data[r][c]);
        if (args.bias != nullptr) value = S::add(value, S::load(args.bias + c));
        if (args.output_weight != nullptr) {
          value = S::mul(S::set1(args.output_weight[r]), value);
        }
        store_columns(args.out_rows[r], args.out_dtype, c, args.out_columns, value);
      }
    }
  }

  static void combine(const CombineArgs& args) {
    const F factor = S::set1(args.factor);
    const bool scaled = args.factor != 1.0F;
    std::int64_t c = 0;
    for (; c < args.columns; c += kLanes) {
      F sum = S::set1(0.0F);
      const bool whole = c + kLanes <= args.columns;
      for (int j = 0; j < args.num_slots; ++j) {
        sum = S::add(sum, whole ? load_rounded<S>(args.slots[j], args.dtype, c)
                                : load_ragged(args.slots[j], args.dtype, c, args.columns));
      }
      if (scaled) sum = S::mul(factor, sum);
      store_columns(args.out, args.dtype, c, args.columns, sum);
    }
  }

 private:
  static F first_sums(const GateUpArgs& args, const float* sums, int r, int c) {
    F value = S::load(sums + c);
    if (args.bias != nullptr) value = S::add(value, S::load(args.bias + c));
    if (args.input_weight != nullptr) value = S::mul(S::set1(args.input_weight[r]), value);
    return value;
  }

  // Activated columns c ... c + kLanes - 1: those beyond the logical ones become zeros, those
  // beyond the padding are dropped.
  static void put_columns(const GateUpArgs& args, int r, int c, F value) {
    if (c + kLanes <= args.out_columns) {
      P::put_lanes(args.out, r, args.out_column + c, value);
      return;
    }
    alignas(64) float lanes[kLanes];
    S::store(lanes, value);
    const std::int64_t room = args.out.k_padded - args.out_column;
    for (int i = 0; i < kLanes && c + i < room; ++i) {
      P::put(args.out, r, args.out_column + c + i, c + i < args.out_columns ? lanes[i] : 0.0F);
    }
  }

  static F load_ragged(const std::byte* row, DType dtype, std::int64_t c, std::int64_t columns) {
    const int bytes = dtype == DType::kF32 ? 4 : 2;
    RaggedLanes<S> rest;
    copy_bytes(rest.data, row + c * bytes, (columns - c) * bytes);
    return load_rounded<S>(rest.data, dtype, 0);
  }

  static void store_columns(std::byte* row, DType dtype, std::int64_t c, std::int64_t columns,
                            F value) {
    if (c + kLanes <= columns) {
      store_rounded<S>(row, dtype, c, value);
      return;
    }
    const int bytes = dtype == DType::kF32 ? 4 : 2;
    RaggedLanes<S> rest;
    store_rounded<S>(rest.data, dtype, 0, value);
    copy_bytes(row + c * bytes, rest.data, (columns - c) * bytes);
  }
};

// Inner product of arithmetic cpu_f32: weights widened in registers, fused multiply-add in f32.
//
// Block    f32 [k][rows]
// W        how a panel is stored: W::load2 gives the lanes of k and k + 1
template <class S, class W>
struct WidenedF32 {
  using F = typename S::F;
  static constexpr int kLanes = S::kLanes;
  static constexpr int kMaxRows = S::kMaxRows;

  static std::int64_t row_bytes(std::int64_t k_padded) { return k_padded * 4; }

  static void put(const ActivationBlock& block, int row, std::int64_t k, float value) {
    reinterpret_cast<float*>(block.data)[k * block.rows + row] = value;
  }

  /// kLanes neighboring k of one row.
  static void put_lanes(const ActivationBlock& block, int row, std::int64_t k, F value) {
    alignas(64) float lanes[kLanes];
    S::store(lanes, value);
    float* to = reinterpret_cast<float*>(block.data) + k * block.rows + row;
    for (int i = 0; i < kLanes; ++i) to[i * block.rows] = lanes[i];
  }

  /// Packs whole vectors of a row and returns how many elements that were.
  static std::int64_t pack_row(const ActivationBlock& block, int row, const std::byte* from,
                               DType dtype, std::int64_t count) {
    std::int64_t k = 0;
    for (; k + kLanes <= count; k += kLanes) {
      put_lanes(block, row, k, load_rounded<S>(from, dtype, k));
    }
    return k;
  }

  static void multiply(const ActivationBlock& x, const std::byte* panel, float* sums) {
    Dispatch<1>::run(x, panel, sums);
  }

 private:
  // A row count known to the compiler keeps all sums in registers.
  template <int R, bool kEnd = (R > kMaxRows)>
  struct Dispatch {
    static void run(const ActivationBlock& x, const std::byte* panel, float* sums) {
      if (x.rows == R) {
        multiply_rows<R>(x, panel, sums);
      } else {
        Dispatch<R + 1>::run(x, panel, sums);
      }
    }
  };
  template <int R>
  struct Dispatch<R, true> {
    static void run(const ActivationBlock&, const std::byte*, float*) {}
  };

  // Vectors of columns at a time: as many as leave all R * V sums in registers.
  static constexpr int vectors_for(int rows) {
    constexpr int kAll = static_cast<int>(kPanelColumns) / kLanes;
    int vectors = kAll;
    while (vectors > 1 && rows * vectors > S::kSumRegisters) vectors /= 2;
    return vectors;
  }

  template <int R>
  static void multiply_rows(const ActivationBlock& x, const std::byte* panel, float* sums) {
    constexpr int V = vectors_for(R);
    for (int c = 0; c < static_cast<int>(kPanelColumns); c += V * kLanes) {
      multiply_chunk<R, V>(reinterpret_cast<const float*>(x.data), panel, x.k_padded, c, sums + c);
    }
  }

  template <int R, int V>
  static void multiply_chunk(const float* x, const std::byte* panel, std::int64_t k_padded,
                             int column, float* sums) {
    F sum[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[r][v] = S::set1(0.0F);
    }
    const std::byte* at = panel + W::column_offset(column);
    for (std::int64_t k = 0; k < k_padded; k += 2, at += W::kPairBytes, x += 2 * R) {
      prefetch_pair<V>(at);
      F even[V];
      F odd[V];
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) W::template load2<S>(at, v, even[v], odd[v]);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const F a = S::set1(x[r]);
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[r][v] = S::fma(even[v], a, sum[r][v]);
      }
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const F a = S::set1(x[R + r]);
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[r][v] = S::fma(odd[v], a, sum[r][v]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) S::store(sums + r * kPanelColumns + v * kLanes, sum[r][v]);
    }
  }

  template <int V>
  static void prefetch_pair(const std::byte* at) {
    constexpr int kBytes = W::kPairBytes * V * kLanes / static_cast<int>(kPanelColumns);
#pragma GCC unroll 16
    for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(at + W::kPrefetchBytes + line);
  }
};

// Far enough ahead to cover the latency of memory at the bandwidth of one core: 4 KiB at 16 GB/s is
// 250 ns.
constexpr int kPrefetchAhead = 4096;

struct Bf16Panel {
  static constexpr int kPairBytes = 2 * 2 * static_cast<int>(kPanelColumns);
  static constexpr int kPrefetchBytes = kPrefetchAhead;
  static constexpr std::int64_t column_offset(int column) { return column * 4; }
  template <class S>
  static void load2(const std::byte* at, int v, typename S::F& even, typename S::F& odd) {
    S::load_bf16_pairs(at + v * S::kLanes * 4, even, odd);
  }
};

struct F16Panel {
  static constexpr int kPairBytes = 2 * 2 * static_cast<int>(kPanelColumns);
  static constexpr int kPrefetchBytes = kPrefetchAhead;
  static constexpr std::int64_t column_offset(int column) { return column * 2; }
  template <class S>
  static void load2(const std::byte* at, int v, typename S::F& even, typename S::F& odd) {
    even = S::load_f16(at + v * S::kLanes * 2);
    odd = S::load_f16(at + kPairBytes / 2 + v * S::kLanes * 2);
  }
};

struct F32Panel {
  static constexpr int kPairBytes = 2 * 4 * static_cast<int>(kPanelColumns);
  static constexpr int kPrefetchBytes = kPrefetchAhead;
  static constexpr std::int64_t column_offset(int column) { return column * 4; }
  template <class S>
  static void load2(const std::byte* at, int v, typename S::F& even, typename S::F& odd) {
    even = S::load(reinterpret_cast<const float*>(at) + v * S::kLanes);
    odd = S::load(reinterpret_cast<const float*>(at + kPairBytes / 2) + v * S::kLanes);
  }
};

inline void nothing() {}

template <class S, class P>
constexpr Ops make_ops() {
  using K = PanelKernel<S, P>;
  return {P::kMaxRows, K::row_bytes, K::pack_rows, K::gate_up,
          K::down,     K::combine,   nothing,      nothing};
}

}  // namespace
}  // namespace fusedmoe::cpu
