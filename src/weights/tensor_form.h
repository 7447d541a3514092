// How the tensors of experts may be written in files: dtypes and shapes.
#pragma once

#include <string>
#include <vector>

#include "fusedmoe/quant.h"
#include "fusedmoe/tensor.h"

namespace fusedmoe {

/// One way in which a tensor may be stored.
struct TensorForm {
  std::vector<DType> dtypes;
  Shape shape;

  bool accepts(DType dtype, const Shape& got) const noexcept;
};

/// All forms of a tensor that has `elements` as its shape, counted in elements of the format. All
/// forms of a role lie in memory in the same way, so the bytes are read alike.
/// No form converts numbers: a format that was not announced is refused.
std::vector<TensorForm> accepted_forms(const QuantScheme& scheme, ParamRole role,
                                       const Shape& elements);

/// "[8, 64] BF16 or F16", alternatives joined by ", ".
std::string to_string(const std::vector<TensorForm>& forms);

}  // namespace fusedmoe
