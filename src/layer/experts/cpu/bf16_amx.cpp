// Arithmetic amx_bf16: tile products.
//
// Computes   sums[r][n] = chain over k blocks of 32 of tdpbf16ps, ascending, from +0
// Shapes     x block bf16 [rows][k_padded]; panel [k / 2][64] pairs; sums [rows][64] f32
// Mapping    16 rows: 1 x 4 tiles (one of x, four of the panel, four of sums);
//            32 rows: 2 x 2 tiles, twice over the panel's halves
// Requires   k_padded % 32 == 0 (the packer pads); rows beyond the block's are not read: the row
//            count is in the tile configuration
// Accuracy   products exact, sums f32 in the order of the tile unit; same for every row count
// Source     Intel architecture instruction set extensions reference, AMX-BF16.
#include "arch/simd/avx512.h"
#include "layer/experts/cpu/ops_tables.h"
#include "layer/experts/cpu/panel_body.inl"

namespace fusedmoe::cpu {
namespace {

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// One configuration for each row count 1 ... 32, in static memory: GCC 12 takes the operand of
// ldtilecfg for eight bytes and drops stores to one built on the stack.
// Tiles 0-3 hold sums, 4-5 rows of x, 6-7 columns of the panel.
constexpr TileConfig config_for(int rows) {
  TileConfig c;
  const int first = rows < 16 ? rows : 16;
  const int second = rows - first;
  for (int t = 0; t < 8; ++t) {
    c.row_bytes[t] = 64;
    c.rows[t] = 16;
  }
  if (second == 0) {  // 1 x 4
    for (int t = 0; t < 4; ++t) c.rows[t] = static_cast<std::uint8_t>(first);
    c.rows[4] = static_cast<std::uint8_t>(first);
  } else {  // 2 x 2: sums 0, 1 of the first rows, 2, 3 of the second
    c.rows[0] = c.rows[1] = c.rows[4] = static_cast<std::uint8_t>(first);
    c.rows[2] = c.rows[3] = c.rows[5] = static_cast<std::uint8_t>(second);
  }
  return c;
}

constexpr int kMostRowsOfBlock = 32;

struct ConfigTable {
  TileConfig row[kMostRowsOfBlock + 1];
  constexpr ConfigTable() : row() {
    for (int r = 1; r <= kMostRowsOfBlock; ++r) row[r] = config_for(r);
  }
};
constexpr ConfigTable kConfigs;

struct AmxBf16 {
  static constexpr int kMaxRows = kMostRowsOfBlock;
  static constexpr int kPairBytes = 4 * static_cast<int>(kPanelColumns);
  static constexpr std::int64_t kDepth = 32;
  static constexpr std::int64_t kSumStride = kPanelColumns * 4;

  static std::int64_t row_bytes(std::int64_t k_padded) { return k_padded * 2; }

  static void put(const ActivationBlock& block, int row, std::int64_t k, float value) {
    const __m128i word = _mm_castps_si128(_mm_set_ss(value));
    reinterpret_cast<std::uint16_t*>(block.data)[row * block.k_padded + k] =
        static_cast<std::uint16_t>(_mm_extract_epi16(word, 1));  // value is exact in bf16
  }

  static void put_lanes(const ActivationBlock& block, int row, std::int64_t k,
                        Avx512Lanes::F value) {
    std::byte* to = block.data + (row * block.k_padded + k) * 2;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), Avx512Lanes::narrow_exact_bf16(value));
  }

  /// The hidden type is bf16: rows are copied as they are.
  static std::int64_t pack_row(const ActivationBlock& block, int row, const std::byte* from, DType,
                               std::int64_t count) {
    __builtin_memcpy(block.data + row * block.k_padded * 2, from,
                     static_cast<std::size_t>(count) * 2);
    return count;
  }

  static void multiply(const ActivationBlock& x, const std::byte* panel, float* sums) {
    configure(x.rows);
    if (x.rows <= 16) {
      multiply_16(x, panel, sums);
    } else {
      multiply_32<true>(x, panel, sums);
      multiply_32<false>(x, panel + kPairBytes / 2, sums + kPanelColumns / 2);
    }
  }

  static void release() {
    _tile_release();
    configured_rows = 0;
  }

 private:
  static thread_local int configured_rows;

  static void configure(int rows) {
    if (configured_rows == rows) return;
    _tile_loadconfig(&kConfigs.row[rows]);
    configured_rows = rows;
  }

  static void prefetch(const std::byte* at) {
#pragma GCC unroll 64
    for (int line = 0; line < 64; ++line) {
      __builtin_prefetch(at + kPrefetchAhead + line * 64);
    }
  }

  static void multiply_16(const ActivationBlock& x, const std::byte* panel, float* sums) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const std::byte* rows = x.data;
    for (std::int64_t k = 0; k < x.k_padded; k += kDepth, rows += 64, panel += 16 * kPairBytes) {
      prefetch(panel);
      _tile_loadd(4, rows, x.k_padded * 2);
      _tile_loadd(6, panel, kPairBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, panel + 64, kPairBytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(6, panel + 128, kPairBytes);
      _tile_dpbf16ps(2, 4, 6);
      _tile_loadd(7, panel + 192, kPairBytes);
      _tile_dpbf16ps(3, 4, 7);
    }
    _tile_stored(0, sums, kSumStride);
    _tile_stored(1, sums + 16, kSumStride);
    _tile_stored(2, sums + 32, kSumStride);
    _tile_stored(3, sums + 48, kSumStride);
  }

  // Half of the panel's columns. The first half asks for both halves' lines.
  template <bool kFirst>
  static void multiply_32(const ActivationBlock& x, const std::byte* panel, float* sums) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const std::byte* first = x.data;
    const std::byte* second = x.data + 16 * x.k_padded * 2;
    for (std::int64_t k = 0; k < x.k_padded; k += kDepth, panel += 16 * kPairBytes) {
      if constexpr (kFirst) prefetch(panel);
      _tile_loadd(4, first + k * 2, x.k_padded * 2);
      _tile_loadd(6, panel, kPairBytes);
      _tile_loadd(7, panel + 64, kPairBytes);
      _tile_loadd(5, second + k * 2, x.k_padded * 2);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, kSumStride);
    _tile_stored(1, sums + 16, kSumStride);
    _tile_stored(2, sums + 16 * kPanelColumns, kSumStride);
    _tile_stored(3, sums + 16 * kPanelColumns + 16, kSumStride);
  }
};

thread_local int AmxBf16::configured_rows = 0;

}  // namespace

const Ops* amx_bf16_ops() {
  static constexpr Ops kOps = [] {
    Ops ops = make_ops<Avx512Lanes, AmxBf16>();
    ops.thread_end = AmxBf16::release;
    return ops;
  }();
  return &kOps;
}

}  // namespace fusedmoe::cpu
