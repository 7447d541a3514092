#include "fusedmoe/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fusedmoe/error.h"

namespace fusedmoe {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > static_cast<std::size_t>(kMaxRank)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("[base] shape: expected at most {} dims, got {}", kMaxRank, dims.size()));
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

std::int64_t Shape::num_elements() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims()) count *= dim;
  return count;
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

bool operator==(const Shape& a, const Shape& b) noexcept {
  return std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end());
}

}  // namespace fusedmoe
