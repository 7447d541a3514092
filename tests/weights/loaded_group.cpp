#include "weights/loaded_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "base/half.h"

namespace fusedmoe::test {
namespace {

const std::vector<std::string> kOwnedPrefixes = {"block."};

std::vector<float> elements(const MatrixView& view) {
  std::vector<float> numbers;
  if (view.data == nullptr) return numbers;
  for (std::int64_t r = 0; r < view.rows; ++r) {
    for (std::int64_t c = 0; c < view.cols; ++c) {
      const std::int64_t at = r * view.row_stride + c * view.col_stride;
      numbers.push_back(load_as_f32(view.data, view.dtype, at));
    }
  }
  return numbers;
}

std::vector<float> elements(std::span<const float> numbers) {
  return {numbers.begin(), numbers.end()};
}

std::vector<NamedTensor> tensors_of_file(const ExpertGroup& group, int file) {
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < group.tensors.size(); ++i) {
    const MadeTensor& t = group.tensors[i];
    if (static_cast<int>(i) % group.num_files != file) continue;
    named.push_back({t.name, {t.bytes.data(), t.dtype, t.shape}});
  }
  return named;
}

// The rows and columns that a rank has of the whole.
std::vector<float> expected_matrix(const ExpertGroup& group, std::int64_t expert,
                                   ExpertShard shard) {
  const std::int64_t part = group.sizes.intermediate_size / group.parallel.tp_size;
  const std::int64_t first = part * group.parallel.tp_rank;
  const bool is_down = shard == ExpertShard::kW2;
  std::vector<float> numbers;
  for (std::int64_t r = 0; r < (is_down ? group.sizes.hidden_size : part); ++r) {
    for (std::int64_t c = 0; c < (is_down ? part : group.sizes.hidden_size); ++c) {
      numbers.push_back(weight_number(group.sizes, expert, shard, is_down ? r : first + r,
                                      is_down ? first + c : c));
    }
  }
  return numbers;
}

std::vector<float> expected_bias(const ExpertGroup& group, std::int64_t expert, ExpertShard shard) {
  if (!group.sizes.has_bias) return {};
  const std::int64_t part = group.sizes.intermediate_size / group.parallel.tp_size;
  const bool is_down = shard == ExpertShard::kW2;
  std::vector<float> numbers;
  for (std::int64_t r = 0; r < (is_down ? group.sizes.hidden_size : part); ++r) {
    // Over the tensor-parallel ranks the down bias is added once: by the first.
    const std::int64_t row = is_down ? r : part * group.parallel.tp_rank + r;
    numbers.push_back(is_down && group.parallel.tp_rank > 0
                          ? 0.0F
                          : bias_number(group.sizes, expert, shard, row));
  }
  return numbers;
}

}  // namespace

MadeTensor made_floats(const std::string& name, const Shape& shape,
                       const std::vector<float>& numbers, DType dtype) {
  MadeTensor tensor{name, dtype, shape, {}};
  tensor.bytes.resize(numbers.size() * static_cast<std::size_t>(dtype_bits(dtype)) / 8);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    store_from_f32(tensor.bytes.data(), dtype, static_cast<std::int64_t>(i), numbers[i]);
  }
  return tensor;
}

MadeTensor made_codes(const std::string& name, const Shape& shape,
                      const std::vector<std::uint8_t>& codes, DType dtype) {
  MadeTensor tensor{name, dtype, shape, std::vector<std::byte>(codes.size())};
  std::memcpy(tensor.bytes.data(), codes.data(), codes.size());
  return tensor;
}

MadeTensor& ExpertGroup::tensor(const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const MadeTensor& t) { return t.name == name; });
  if (found == tensors.end()) throw std::runtime_error("no tensor " + name);
  return *found;
}

void ExpertGroup::remove(const std::string& name) {
  tensors.erase(tensors.begin() + (&tensor(name) - tensors.data()));
}

Checkpoint ExpertGroup::write(const testing::TempFolder& folder) const {
  folder.write("config.json", "{}");
  for (int file = 0; file < num_files; ++file) {
    const std::string name = fmt::format("part-{}.safetensors", file);
    write_safetensors(folder.path() / name, tensors_of_file(*this, file));
  }
  return Checkpoint::open(folder.path());
}

ExpertGroup plain_group(const DiskLayout& layout, const ExpertSizes& sizes,
                        const ParallelLayout& parallel, const std::string& modules) {
  ExpertGroup group;
  group.sizes = sizes;
  group.is_gated = layout.is_gated;
  group.parallel = parallel;
  group.patterns = patterns_of(layout, sizes.has_bias, modules);
  const std::int64_t part = sizes.intermediate_size / parallel.tp_size;
  const IntermediateRange range = parallel.presharded
                                      ? IntermediateRange{parallel.tp_rank * part, part}
                                      : IntermediateRange{0, sizes.intermediate_size};
  for (const StoredTensor& t : store(layout, sizes, range, modules)) {
    group.tensors.push_back(made_floats(t.name, t.shape, t.numbers));
  }
  return group;
}

LoadedGroup load_group(const ExpertGroup& group, const LoadHooks& hooks) {
  const testing::TempFolder folder;
  const Checkpoint checkpoint = group.write(folder);
  LoadedGroup result;
  std::mutex mutex;
  ExpertLoadRequest request;
  request.group = "routed";
  request.tensors = &group.patterns;
  request.quant = &group.quant;
  request.num_experts = group.sizes.num_experts;
  request.hidden_size = group.sizes.hidden_size;
  request.intermediate_size = group.sizes.intermediate_size;
  request.is_gated = group.is_gated;
  request.has_bias = group.sizes.has_bias;
  request.parallel = group.parallel;
  request.weight_dtype = group.weight_dtype;
  request.sink = hooks.sink ? hooks.sink : [&](std::int64_t local, const ExpertTensors& t) {
    const LoadedExpert expert{elements(t.w1), elements(t.w3), elements(t.w2),
                              elements(t.b1), elements(t.b3), elements(t.b2)};
    const std::lock_guard lock(mutex);
    if (!result.experts.emplace(local, expert).second) {
      throw std::runtime_error(fmt::format("local expert {} was handed out twice", local));
    }
  };
  LoadLedger ledger;
  load_experts(checkpoint, request, hooks.options, ledger);
  result.report = ledger.finish(checkpoint, kOwnedPrefixes, hooks.options.report);
  return result;
}

LoadedExpert expected_expert(const ExpertGroup& group, std::int64_t local_expert) {
  const auto local = local_to_logical(group.parallel, group.sizes.num_experts);
  const std::int64_t expert = local.at(static_cast<std::size_t>(local_expert));
  LoadedExpert loaded;
  loaded.w1 = expected_matrix(group, expert, ExpertShard::kW1);
  loaded.w2 = expected_matrix(group, expert, ExpertShard::kW2);
  loaded.b1 = expected_bias(group, expert, ExpertShard::kW1);
  loaded.b2 = expected_bias(group, expert, ExpertShard::kW2);
  if (!group.is_gated) return loaded;
  loaded.w3 = expected_matrix(group, expert, ExpertShard::kW3);
  loaded.b3 = expected_bias(group, expert, ExpertShard::kW3);
  return loaded;
}

}  // namespace fusedmoe::test
