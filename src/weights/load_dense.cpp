// Small tensors of a layer: router weights, biases, scales, tables of expert ids.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "weights/load.h"

namespace fusedmoe {
namespace {

std::string describe(const Checkpoint& checkpoint, const TensorInfo& info) {
  return fmt::format("{} {} ({})", info.shape.to_string(), dtype_name(info.dtype),
                     checkpoint.files()[static_cast<std::size_t>(info.file)]);
}

}  // namespace

std::vector<float> load_dense_f32(const Checkpoint& checkpoint, const std::string& name,
                                  const std::vector<Shape>& accepted, LoadLedger& ledger) {
  const TensorInfo* info = checkpoint.find(name);
  if (info == nullptr) {
    ledger.add_missing(name, "");
    return {};
  }
  ledger.mark_used(name);
  const bool shape_ok = std::find(accepted.begin(), accepted.end(), info->shape) != accepted.end();
  if (!shape_ok || !is_activation_dtype(info->dtype)) {
    ledger.add_problem(fmt::format("{}: expected {} F32, BF16 or F16, got {}", name,
                                   accepted.front().to_string(), describe(checkpoint, *info)));
    return {};
  }
  const TensorView view = checkpoint.view(*info);
  std::vector<float> values(static_cast<std::size_t>(info->shape.num_elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load_as_f32(view.data, view.dtype, static_cast<std::int64_t>(i));
    if (std::isfinite(values[i])) continue;
    ledger.add_problem(
        fmt::format("{}: element {}: expected a finite number, got {}", name, i, values[i]));
    return {};
  }
  return values;
}

std::vector<std::int64_t> load_id_table(const Checkpoint& checkpoint, const std::string& name,
                                        std::int64_t top_k, std::int64_t num_experts,
                                        LoadLedger& ledger) {
  const TensorInfo* info = checkpoint.find(name);
  if (info == nullptr) {
    ledger.add_missing(name, "");
    return {};
  }
  ledger.mark_used(name);
  const bool wide = info->dtype == DType::kI64;
  if (info->shape.rank() != 2 || info->shape[1] != top_k || (!wide && info->dtype != DType::kI32)) {
    ledger.add_problem(fmt::format("{}: expected [vocab, {}] I64 or I32, got {}", name, top_k,
                                   describe(checkpoint, *info)));
    return {};
  }
  const auto* bytes = static_cast<const std::byte*>(checkpoint.view(*info).data);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(info->shape.num_elements()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (wide) {
      std::copy_n(bytes + i * 8, 8, reinterpret_cast<std::byte*>(&ids[i]));
    } else {
      std::int32_t id = 0;
      std::copy_n(bytes + i * 4, 4, reinterpret_cast<std::byte*>(&id));
      ids[i] = id;
    }
    if (ids[i] >= 0 && ids[i] < num_experts) continue;
    ledger.add_problem(fmt::format("{}: element {}: expected an expert in [0, {}), got {}", name, i,
                                   num_experts, ids[i]));
    return {};
  }
  return ids;
}

}  // namespace fusedmoe
