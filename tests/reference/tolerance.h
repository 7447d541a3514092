// How far a result may be from the oracle. Every bound of the tests is computed here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fusedmoe/dtype.h"

namespace fusedmoe::tolerance {

/// Relative root-mean-square error of one rounding to p bits, 2^-(p + 1).
inline double rounding_rms(DType dtype) {
  if (dtype == DType::kBF16) return 0x1p-9;
  return dtype == DType::kF16 ? 0x1p-12 : 0x1p-25;
}

/// Relative error, in the 2-norm, of one f32 accumulation chain over `length` products of random
/// sign: partial sums grow as sqrt(i), each addition errs by 2^-24 of them at most.
inline double chain(std::int64_t length) {
  return std::sqrt(static_cast<double>(length)) * 0x1p-24;
}

/// Against the oracle that rounds the output only, ||y - r|| / ||r|| over at least 16 rows. Three
/// to four roundings of about 2^-9 in a bf16 layer (measured on public kernels: 4e-3): 3 units
/// each.
inline double against_exact(DType hidden_dtype, std::int64_t longest_reduction) {
  if (hidden_dtype == DType::kF32) return 1e-5;
  return 3.0 * rounding_rms(hidden_dtype) + chain(longest_reduction);
}

/// Against the oracle that rounds where the layer does: what is left is f32 accumulation, and
/// roundings that it tips over. One value in a hundred, a unit each: 2^-8 * 0.1 < 1e-3 in bf16.
inline double against_rounded(DType hidden_dtype, std::int64_t longest_reduction) {
  if (hidden_dtype == DType::kF32) return 1e-6 + chain(longest_reduction);
  return 0.5 * rounding_rms(hidden_dtype) + chain(longest_reduction);
}

/// Partial results of tensor-parallel ranks, each rounded to the hidden type, summed outside: every
/// rank rounds slots and output once more than a single rank does.
inline double against_single_rank(DType hidden_dtype, std::int64_t longest_reduction) {
  return 2.0 * against_exact(hidden_dtype, longest_reduction);
}

/// Recorded rows, max |y - r| / max |r| of the worst row; the bounds that the recording states.
inline double golden_row(DType hidden_dtype) { return hidden_dtype == DType::kF32 ? 1e-5 : 3e-2; }

/// ||a - b|| / ||b|| of two arrays of numbers of one size; infinite when a value is not finite, or
/// differs from an all-zero reference.
template <class A, class B>
double norm_error(const A& a, const B& b) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  if (difference == 0.0) return 0.0;
  const double error = std::sqrt(difference / norm);
  return std::isfinite(error) ? error : HUGE_VAL;
}

/// max |a - b| / max |b| of one row.
template <class A, class B>
double row_error(const A& a, const B& b) {
  double difference = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!std::isfinite(d)) return HUGE_VAL;
    difference = std::max(difference, d);
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return difference == 0.0 ? 0.0 : difference / largest;
}

}  // namespace fusedmoe::tolerance
