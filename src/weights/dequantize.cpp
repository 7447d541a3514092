#include "weights/dequantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "base/half.h"
#include "quant/codec.h"
#include "quant/scale_grid.h"

namespace fusedmoe {
namespace {

const std::uint8_t* bytes_of(const TensorView& view) {
  return static_cast<const std::uint8_t*>(view.data);
}

const ByteTable& code_table(PayloadFormat payload) {
  if (payload == PayloadFormat::kF8E4M3Fnuz) return e4m3fnuz_table();
  return payload == PayloadFormat::kF8E5M2 ? e5m2_table() : e4m3_table();
}

// Both numbers of a byte of E2M1 codes, the low nibble first.
using PairTable = std::array<std::array<float, 2>, 256>;
const PairTable& e2m1_pairs() {
  static const PairTable table = [] {
    PairTable pairs;
    for (std::size_t byte = 0; byte < pairs.size(); ++byte) {
      pairs[byte] = {decode_e2m1(static_cast<std::uint8_t>(byte & 15)),
                     decode_e2m1(static_cast<std::uint8_t>(byte >> 4))};
    }
    return pairs;
  }();
  return table;
}

// Rounds numbers into an array of BF16 or F16 bits or of F32; false when one is not finite there.
template <class Bits, class Round>
bool store_all(const std::vector<float>& values, std::byte* out, Bits exponent_mask, Round round) {
  bool all_finite = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Bits bits = round(values[i]);
    all_finite &= (bits & exponent_mask) != exponent_mask;
    std::memcpy(out + i * sizeof(Bits), &bits, sizeof(Bits));
  }
  return all_finite;
}

bool store_as(DType dtype, const std::vector<float>& values, std::byte* out) {
  if (dtype == DType::kBF16) return store_all<std::uint16_t>(values, out, 0x7F80, f32_to_bf16);
  if (dtype == DType::kF16) return store_all<std::uint16_t>(values, out, 0x7C00, f32_to_f16);
  return store_all<std::uint32_t>(values, out, 0x7F800000U,
                                  [](float v) { return std::bit_cast<std::uint32_t>(v); });
}

// One slice while it is written, a logical row after the other. The common path only notes that
// something is wrong with a row; what it is, is found out in a second look.
class SliceReader {
 public:
  SliceReader(const QuantScheme& scheme, const QuantizedMatrix& matrix, const ShardSlice& slice)
      : scheme_(scheme),
        matrix_(matrix),
        s_(slice),
        grid_(scale_grid(scheme, slice.tensor_rows, slice.tensor_cols)),
        row_(static_cast<std::size_t>(slice.cols)) {}

  // Writes row `r`, or says what is wrong with it.
  std::string write(std::int64_t r, DType dtype, std::byte* out) {
    decode(r);
    // Along a logical row, a scale lasts to the end of its unit.
    const std::int64_t unit = s_.is_transposed ? grid_.unit_rows : grid_.unit_cols;
    for (std::int64_t c = 0; c < s_.cols;) {
      const std::int64_t end = std::min(s_.cols, c + unit - (s_.first_col + c) % unit);
      std::string problem = scale(r, c, end);
      if (!problem.empty()) return problem;
      c = end;
    }
    const std::int64_t row_bytes = s_.cols * dtype_bits(dtype) / 8;
    return store_as(dtype, row_, out + r * row_bytes) ? std::string() : explain(r, dtype);
  }

  std::int64_t num_zero_scales() const { return static_cast<std::int64_t>(zero_scales_.size()); }

 private:
  struct Stored {
    std::int64_t row, col;
  };
  Stored stored(std::int64_t r, std::int64_t c) const {
    const std::int64_t n = s_.first_row + r * s_.row_step;
    const std::int64_t k = s_.first_col + c;
    return s_.is_transposed ? Stored{k, n} : Stored{n, k};
  }
  std::string element(std::int64_t r, std::int64_t c) const {
    const Stored p = stored(r, c);
    return fmt::format("element [{}, {}]", p.row, p.col);
  }
  std::string scale_of_element(std::int64_t r, std::int64_t c) const {
    const Stored p = stored(r, c);
    return fmt::format("scale [{}, {}] of element [{}, {}]", p.row / grid_.unit_rows,
                       p.col / grid_.unit_cols, p.row, p.col);
  }

  void decode(std::int64_t r) {
    const Stored first = stored(r, 0);
    std::int64_t index =
        (s_.stacked_index * s_.tensor_rows + first.row) * s_.tensor_cols + first.col;
    const std::int64_t step = s_.is_transposed ? s_.tensor_cols : 1;
    const std::uint8_t* codes = bytes_of(matrix_.codes);
    if (scheme_.payload == PayloadFormat::kE2M1) {
      const PairTable& pairs = e2m1_pairs();
      for (float& value : row_) {
        value = pairs[codes[index >> 1]][static_cast<std::size_t>(index & 1)];
        index += step;
      }
      return;
    }
    const ByteTable& table = code_table(scheme_.payload);
    for (float& value : row_) {
      value = table[codes[index]];
      index += step;
    }
  }

  float scale_at(std::int64_t index) const {
    const DType dtype = matrix_.scales.dtype;
    const bool is_exponent = dtype == DType::kF8E8M0 || dtype == DType::kU8;
    return is_exponent ? e8m0_table()[bytes_of(matrix_.scales)[index]]
                       : load_as_f32(matrix_.scales.data, dtype, index);
  }

  std::int64_t scale_index(std::int64_t r, std::int64_t c) const {
    const Stored p = stored(r, c);
    return s_.stacked_index * grid_.num_scales() + grid_.index(p.row, p.col);
  }

  // Multiplies columns [begin, end), which share a scale.
  std::string scale(std::int64_t r, std::int64_t begin, std::int64_t end) {
    const std::int64_t index = scale_index(r, begin);
    const float scale = scale_at(index);
    if (!std::isfinite(scale) || scale < 0.0F) {
      return fmt::format("{}: expected a finite number > 0, got {}", scale_of_element(r, begin),
                         scale);
    }
    if (scale == 0.0F) {
      zero_scales_.insert(index);
      for (std::int64_t c = begin; c < end; ++c) {
        const float value = row_[static_cast<std::size_t>(c)];
        if (value == 0.0F) continue;
        return fmt::format("{}: expected a number > 0 over a code that is not zero, got 0 over {}",
                           scale_of_element(r, c), value);
      }
    }
    for (std::int64_t c = begin; c < end; ++c) row_[static_cast<std::size_t>(c)] *= scale;
    return {};
  }

  // The first number of a row that could not be stored.
  std::string explain(std::int64_t r, DType dtype) {
    const std::vector<float> products = row_;
    decode(r);
    for (std::int64_t c = 0; c < s_.cols; ++c) {
      const auto i = static_cast<std::size_t>(c);
      if (!std::isfinite(row_[i])) {
        return fmt::format("{}: expected a finite code, got {}", element(r, c), row_[i]);
      }
      if (!std::isfinite(round_to(products[i], dtype))) {
        return fmt::format("{}: expected a product that {} can hold, got {} * {}", element(r, c),
                           dtype_name(dtype), row_[i], scale_at(scale_index(r, c)));
      }
    }
    return {};
  }

  const QuantScheme& scheme_;
  const QuantizedMatrix& matrix_;
  const ShardSlice& s_;
  const ScaleGrid grid_;
  std::vector<float> row_;
  std::set<std::int64_t> zero_scales_;
};

}  // namespace

std::string dequantize(const QuantScheme& scheme, const QuantizedMatrix& matrix,
                       const ShardSlice& slice, DType out_dtype, std::byte* out,
                       std::int64_t* num_zero_scales) {
  SliceReader reader(scheme, matrix, slice);
  for (std::int64_t r = 0; r < slice.rows; ++r) {
    const std::string problem = reader.write(r, out_dtype, out);
    if (problem.empty()) continue;
    return fmt::format("{}: {} of expert {}: {}", slice.tensor, shard_name(slice.shard),
                       slice.logical_expert, problem);
  }
  if (num_zero_scales != nullptr) *num_zero_scales = reader.num_zero_scales();
  return {};
}

}  // namespace fusedmoe
