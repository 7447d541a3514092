#include "weights/tensor_form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace fusedmoe {
namespace {

const std::vector<DType> kPlainDTypes = {DType::kBF16, DType::kF16, DType::kF32};

struct PayloadDType {
  PayloadFormat payload;
  DType dtype;
};
constexpr std::array<PayloadDType, 3> kByteFormats = {{
    {PayloadFormat::kF8E4M3, DType::kF8E4M3},
    {PayloadFormat::kF8E4M3Fnuz, DType::kF8E4M3Fnuz},
    {PayloadFormat::kF8E5M2, DType::kF8E5M2},
}};

// How files write 4-bit codes: the last axis of `elements` becomes these, from the left.
struct PackedForm {
  std::vector<DType> dtypes;
  std::vector<std::int64_t> elements_per_step;  ///< of each axis that replaces the last one
};
const std::vector<PackedForm> kPackedForms = {
    {{DType::kU8, DType::kI8}, {32, 2}},  // blocks of 16 bytes: [..., K / 32, 16]
    {{DType::kU8, DType::kI8}, {2}},      // bytes: [..., K / 2]
    {{DType::kF4}, {1}},                  // elements: [..., K]
};

Shape packed_shape(const Shape& elements, const PackedForm& form) {
  std::vector<std::int64_t> dims(elements.dims().begin(), elements.dims().end());
  std::int64_t rest = dims.back();
  dims.pop_back();
  for (const std::int64_t step : form.elements_per_step) {
    dims.push_back(rest / step);
    rest = step;
  }
  return Shape(dims);
}

std::vector<TensorForm> weight_forms(const QuantScheme& scheme, const Shape& elements) {
  if (!scheme.is_quantized()) return {{kPlainDTypes, elements}};
  if (scheme.payload == PayloadFormat::kE2M1) {
    std::vector<TensorForm> forms;
    for (const PackedForm& form : kPackedForms) {
      forms.push_back({form.dtypes, packed_shape(elements, form)});
    }
    return forms;
  }
  const auto row = std::ranges::find(kByteFormats, scheme.payload, &PayloadDType::payload);
  if (row == kByteFormats.end()) return {};
  return {{{row->dtype}, elements}};
}

// One number for each expert of the tensor may have axes of size 1 behind it, or none at all.
std::vector<TensorForm> scalar_forms(const std::vector<DType>& dtypes, const Shape& elements) {
  const std::int64_t count = elements.num_elements();
  std::vector<TensorForm> forms = {{dtypes, Shape{count}}, {dtypes, Shape{count, 1}}};
  if (count == 1) forms.push_back({dtypes, Shape{}});
  return forms;
}

}  // namespace

bool TensorForm::accepts(DType dtype, const Shape& got) const noexcept {
  return got == shape && std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

std::vector<TensorForm> accepted_forms(const QuantScheme& scheme, ParamRole role,
                                       const Shape& elements) {
  if (role == ParamRole::kWeight) return weight_forms(scheme, elements);
  if (role == ParamRole::kBias) return {{kPlainDTypes, elements}};
  if (role == ParamRole::kInputScale) return scalar_forms(kPlainDTypes, elements);
  const std::vector<DType> dtypes =
      scheme.scale_dtype == DType::kF8E8M0
          ? std::vector<DType>{DType::kU8, DType::kF8E8M0}
          : std::vector<DType>{DType::kF32, DType::kBF16, DType::kF16, DType::kF8E8M0};
  if (scheme.granularity == ScaleGranularity::kTensor) return scalar_forms(dtypes, elements);
  return {{dtypes, elements}};
}

std::string to_string(const std::vector<TensorForm>& forms) {
  std::vector<std::string> words;
  for (const TensorForm& form : forms) {
    std::vector<std::string_view> names;
    for (const DType dtype : form.dtypes) names.push_back(dtype_name(dtype));
    words.push_back(fmt::format("{} {}", form.shape.to_string(), fmt::join(names, " or ")));
  }
  return fmt::format("{}", fmt::join(words, ", or "));
}

}  // namespace fusedmoe
