#include "weights/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "base/half.h"
#include "fusedmoe/error.h"
#include "weights/dequantize.h"
#include "weights/shard_plan.h"

namespace fusedmoe {
namespace {

// Staging of all threads together stays below this, or one expert where an expert is larger.
constexpr std::uint64_t kMostStagingBytes = std::uint64_t{256} << 20;

std::string describe(const TensorInfo& info) {
  return fmt::format("{} {}", info.shape.to_string(), dtype_name(info.dtype));
}

// Dtypes that a file may use for a role; no numeric conversion hides a format that was not
// announced.
std::vector<DType> accepted_dtypes(const QuantScheme& scheme, ParamRole role) {
  if (role == ParamRole::kBias || role == ParamRole::kInputScale) {
    return {DType::kBF16, DType::kF16, DType::kF32};
  }
  if (role == ParamRole::kWeightScale) {
    if (scheme.scale_dtype == DType::kF8E8M0) return {DType::kU8, DType::kF8E8M0};
    return {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E8M0};
  }
  switch (scheme.payload) {
    case PayloadFormat::kF8E4M3:
      return {DType::kF8E4M3};
    case PayloadFormat::kF8E4M3Fnuz:
      return {DType::kF8E4M3Fnuz};
    case PayloadFormat::kF8E5M2:
      return {DType::kF8E5M2};
    case PayloadFormat::kE2M1:
      return {DType::kU8, DType::kI8};
    default:
      return {DType::kBF16, DType::kF16, DType::kF32};
  }
}

// A per-tensor scale may have any rank, but only one number.
bool shape_fits(const Shape& got, const Shape& wanted, bool is_scalar) {
  return got == wanted || (is_scalar && got.num_elements() == 1 && wanted.num_elements() == 1);
}

// One run of the loader over one group.
class GroupLoader {
 public:
  GroupLoader(const Checkpoint& checkpoint, const ExpertLoadRequest& request, LoadLedger& ledger)
      : checkpoint_(checkpoint),
        request_(request),
        ledger_(ledger),
        plan_(make_shard_plan(request, [&](const std::string& name) {
          const TensorInfo* info = checkpoint.find(name);
          return info == nullptr ? Shape() : info->shape;
        })) {}

  void skip() {
    for (const PlannedTensor& tensor : plan_.tensors) {
      if (checkpoint_.find(tensor.name) != nullptr) ledger_.mark_elsewhere(tensor.name);
    }
  }

  // Shapes and dtypes of all tensors, before any of their bytes is read.
  bool check() {
    bool sound = true;
    for (const PlannedTensor& tensor : plan_.tensors) sound = check_tensor(tensor) && sound;
    return sound;
  }

  void load(const LoadOptions& options) {
    by_expert_.resize(plan_.local_to_logical.size());
    for (const ShardSlice& slice : plan_.slices) {
      by_expert_[static_cast<std::size_t>(slice.local_expert)].push_back(&slice);
    }
    for (const ShardSlice& slice : plan_.slices) total_bytes_ += bytes_of(slice);
    run_experts(options);
  }

 private:
  bool check_tensor(const PlannedTensor& tensor) {
    const TensorInfo* info = checkpoint_.find(tensor.name);
    if (info == nullptr) {
      ledger_.add_missing(tensor.name, tensor.is_needed ? "" : "an expert of another rank");
      return false;
    }
    if (tensor.is_needed) {
      ledger_.mark_used(tensor.name);
    } else {
      ledger_.mark_elsewhere(tensor.name);
    }
    const QuantScheme& scheme = request_.quant->scheme;
    const bool scalar =
        tensor.role == ParamRole::kInputScale ||
        (tensor.role == ParamRole::kWeightScale && scheme.granularity == ScaleGranularity::kTensor);
    const std::vector<DType> dtypes = accepted_dtypes(scheme, tensor.role);
    const bool dtype_ok = std::find(dtypes.begin(), dtypes.end(), info->dtype) != dtypes.end();
    if (dtype_ok && shape_fits(info->shape, tensor.shape, scalar)) return true;
    std::vector<std::string_view> names;
    for (const DType dtype : dtypes) names.push_back(dtype_name(dtype));
    ledger_.add_problem(fmt::format("{}: expected {} {}, got {}", tensor.name,
                                    tensor.shape.to_string(), fmt::join(names, " or "),
                                    describe(*info)));
    return false;
  }

  std::uint64_t bytes_of(const ShardSlice& slice) const {
    const TensorInfo& info = *checkpoint_.find(slice.tensor);
    if (slice.role != ParamRole::kWeight) return 0;
    const bool halved = request_.quant->scheme.payload == PayloadFormat::kE2M1;
    const auto bits = static_cast<std::uint64_t>(halved ? 4 : dtype_bits(info.dtype));
    return static_cast<std::uint64_t>(slice.rows * slice.cols) * bits / 8;
  }

  // Bytes that one expert needs beside the result: the dequantized copy, and biases.
  std::uint64_t staging_bytes() const {
    const auto h = static_cast<std::uint64_t>(request_.hidden_size);
    const auto i = static_cast<std::uint64_t>(plan_.local_intermediate);
    const std::uint64_t biases = request_.has_bias ? (2 * i + h) * sizeof(float) : 0;
    if (!request_.quant->scheme.is_quantized()) return biases;
    const auto element = static_cast<std::uint64_t>(dtype_bits(request_.weight_dtype)) / 8;
    return biases + h * i * (request_.is_gated ? 3 : 2) * element;
  }

  void run_experts(const LoadOptions& options) {
    const auto count = static_cast<std::int64_t>(by_expert_.size());
    const std::uint64_t each = std::max<std::uint64_t>(staging_bytes(), 1);
    const auto affordable =
        static_cast<std::int64_t>(std::max<std::uint64_t>(kMostStagingBytes / each, 1));
    const int threads = options.executor == nullptr ? 1 : options.executor->num_threads();
    const std::int64_t active = std::min({std::int64_t{threads}, affordable, count});
    ledger_.add_bytes(total_bytes_, staging_bytes() * static_cast<std::uint64_t>(active));
    struct Context {
      GroupLoader* loader;
      const LoadOptions* options;
      std::atomic<std::int64_t> next{0};
      std::atomic<std::uint64_t> done{0};
      std::int64_t count, active;
    } context{this, &options, {}, {}, count, active};
    const auto work = [](void* raw, int thread) {
      auto& c = *static_cast<Context*>(raw);
      if (thread >= c.active) return;
      for (std::int64_t e = c.next++; e < c.count; e = c.next++) {
        c.loader->load_guarded(e);
        const std::uint64_t done = c.done += c.loader->bytes_of_expert(e);
        if (c.options->progress) c.options->progress(done, c.loader->total_bytes_);
      }
    };
    if (options.executor == nullptr) {
      work(&context, 0);
    } else {
      options.executor->run(work, &context);
    }
  }

  std::uint64_t bytes_of_expert(std::int64_t local) const {
    std::uint64_t sum = 0;
    for (const ShardSlice* slice : by_expert_[static_cast<std::size_t>(local)]) {
      sum += bytes_of(*slice);
    }
    return sum;
  }

  // Worker threads do not throw: what goes wrong is a problem in the ledger.
  void load_guarded(std::int64_t local) {
    try {
      load_expert(local);
    } catch (const std::exception& error) {
      ledger_.add_problem(
          fmt::format("{} local expert {}: {}", request_.group, local, error.what()));
    }
  }

  struct Staging {
    std::vector<std::byte> matrices;
    std::size_t used = 0;
    std::vector<float> b1, b3, b2;
  };

  void load_expert(std::int64_t local) {
    Staging staging;
    if (request_.quant->scheme.is_quantized()) {
      staging.matrices.resize(static_cast<std::size_t>(staging_bytes()));
    }
    ExpertTensors tensors;
    const auto& slices = by_expert_[static_cast<std::size_t>(local)];
    for (const ShardSlice* slice : slices) {
      if (slice->role == ParamRole::kBias) {
        read_bias(*slice, staging, tensors);
      } else if (slice->role == ParamRole::kWeight) {
        if (!read_matrix(*slice, slices, staging, tensors)) return;
      }
    }
    request_.sink(local, tensors);
    for (const ShardSlice* slice : slices) {
      ledger_.fill(
          {request_.group, static_cast<int>(slice->role), local, static_cast<int>(slice->shard)});
    }
  }

  static MatrixView& matrix_of(ExpertTensors& tensors, ExpertShard shard) {
    return shard == ExpertShard::kW1   ? tensors.w1
           : shard == ExpertShard::kW3 ? tensors.w3
                                       : tensors.w2;
  }

  // Every thread of a plain file reads the mapping itself: a strided view, no copy.
  MatrixView view_of(const ShardSlice& s) const {
    const TensorInfo& info = *checkpoint_.find(s.tensor);
    const std::int64_t base = s.stacked_index * s.tensor_rows * s.tensor_cols;
    const std::int64_t row = s.is_transposed ? 1 : s.tensor_cols;
    const std::int64_t col = s.is_transposed ? s.tensor_cols : 1;
    const std::int64_t first = base + s.first_row * row + s.first_col * col;
    const auto* data = static_cast<const std::byte*>(checkpoint_.view(info).data) +
                       first * (dtype_bits(info.dtype) / 8);
    return {data, info.dtype, s.rows, s.cols, row * s.row_step, col};
  }

  bool read_matrix(const ShardSlice& s, const std::vector<const ShardSlice*>& slices,
                   Staging& staging, ExpertTensors& tensors) {
    MatrixView& to = matrix_of(tensors, s.shard);
    if (!request_.quant->scheme.is_quantized()) {
      to = view_of(s);
      return true;
    }
    const auto scale = std::find_if(slices.begin(), slices.end(), [&](const ShardSlice* other) {
      return other->role == ParamRole::kWeightScale && other->shard == s.shard;
    });
    const QuantizedMatrix matrix{checkpoint_.view(*checkpoint_.find(s.tensor)),
                                 checkpoint_.view(*checkpoint_.find((*scale)->tensor))};
    std::byte* out = staging.matrices.data() + staging.used;
    staging.used += static_cast<std::size_t>(s.rows * s.cols) *
                    static_cast<std::size_t>(dtype_bits(request_.weight_dtype) / 8);
    const std::string problem =
        dequantize(request_.quant->scheme, matrix, s, request_.weight_dtype, out);
    if (!problem.empty()) {
      ledger_.add_problem(problem);
      return false;
    }
    to = {out, request_.weight_dtype, s.rows, s.cols, s.cols, 1};
    return true;
  }

  void read_bias(const ShardSlice& s, Staging& staging, ExpertTensors& tensors) {
    const TensorInfo& info = *checkpoint_.find(s.tensor);
    const TensorView view = checkpoint_.view(info);
    std::vector<float>& to = s.shard == ExpertShard::kW1   ? staging.b1
                             : s.shard == ExpertShard::kW3 ? staging.b3
                                                           : staging.b2;
    to.resize(static_cast<std::size_t>(s.rows));
    // The down bias is added once over the tensor-parallel ranks: by the first.
    const bool silent = s.shard == ExpertShard::kW2 && request_.parallel.tp_rank > 0;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::int64_t at = s.stacked_index * s.tensor_rows + s.first_row + r * s.row_step;
      to[static_cast<std::size_t>(r)] = silent ? 0.0F : load_as_f32(view.data, info.dtype, at);
    }
    std::span<const float>& span = s.shard == ExpertShard::kW1   ? tensors.b1
                                   : s.shard == ExpertShard::kW3 ? tensors.b3
                                                                 : tensors.b2;
    span = to;
  }

  const Checkpoint& checkpoint_;
  const ExpertLoadRequest& request_;
  LoadLedger& ledger_;
  ShardPlan plan_;
  std::vector<std::vector<const ShardSlice*>> by_expert_;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace

void load_experts(const Checkpoint& checkpoint, const ExpertLoadRequest& request,
                  const LoadOptions& options, LoadLedger& ledger) {
  GroupLoader loader(checkpoint, request, ledger);
  if (loader.check()) loader.load(options);
}

void skip_experts(const Checkpoint& checkpoint, const ExpertLoadRequest& request,
                  LoadLedger& ledger) {
  GroupLoader(checkpoint, request, ledger).skip();
}

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
                                   accepted.front().to_string(), describe(*info)));
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
    ledger.add_problem(
        fmt::format("{}: expected [vocab, {}] I64 or I32, got {}", name, top_k, describe(*info)));
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
