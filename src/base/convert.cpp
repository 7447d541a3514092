// Element conversion between the activation dtypes.
#include <fmt/format.h>

#include "base/half.h"
#include "fusedmoe/error.h"
#include "fusedmoe/tensor.h"

namespace fusedmoe {

void convert(TensorView from, MutableTensorView to) {
  if (!(from.shape == to.shape) || !is_activation_dtype(from.dtype) ||
      !is_activation_dtype(to.dtype)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[base] convert: expected equal shapes of F32, BF16 or F16, got {} {} "
                            "to {} {}, pass tensors of one shape",
                            from.shape.to_string(), dtype_name(from.dtype), to.shape.to_string(),
                            dtype_name(to.dtype)));
  }
  const std::int64_t num_elements = from.shape.num_elements();
  if (num_elements == 0) return;
  const std::int64_t rows = from.shape.rank() == 0 ? 1 : from.shape[0];
  const std::int64_t cols = num_elements / rows;
  const std::int64_t from_stride = from.row_stride == 0 ? cols : from.row_stride;
  const std::int64_t to_stride = to.row_stride == 0 ? cols : to.row_stride;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const float value = load_as_f32(from.data, from.dtype, r * from_stride + c);
      store_from_f32(to.data, to.dtype, r * to_stride + c, value);
    }
  }
}

}  // namespace fusedmoe
