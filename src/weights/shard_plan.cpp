#include "weights/shard_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

constexpr std::string_view kExpertMark = "{expert}";
constexpr std::int64_t kPackedBlock = 32;  // 4-bit elements in the 16 bytes of a stored block

const char* shard_name(ExpertShard shard) {
  constexpr const char* kNames[] = {"w1", "w3", "w2", "w13"};
  return kNames[static_cast<int>(shard)];
}

const char* role_name(ParamRole role) {
  constexpr const char* kNames[] = {"weight",      "bias",       "weight_scale", "weight_scale_2",
                                    "input_scale", "zero_point", "g_idx",        "weight_shape"};
  return kNames[static_cast<int>(role)];
}

std::string module_of(const ExpertTensorPattern& pattern, std::int64_t expert) {
  std::string name = pattern.module;
  const std::size_t at = name.find(kExpertMark);
  if (at != std::string::npos) name.replace(at, kExpertMark.size(), std::to_string(expert));
  return name;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// What the file's tensors look like, before any cut: sizes in the file are those of one
// tensor-parallel rank when they are presharded.
struct FileSizes {
  std::int64_t h = 0;
  std::int64_t i = 0;
};

class Planner {
 public:
  Planner(const ExpertLoadRequest& request, const ShapeLookup& shapes)
      : request_(request), shapes_(shapes) {
    const ParallelLayout& p = request.parallel;
    plan_.hidden_size = request.hidden_size;
    plan_.local_intermediate = request.intermediate_size / p.tp_size;
    plan_.local_to_logical = local_to_logical(p, request.num_experts);
    file_ = {request.hidden_size,
             p.presharded ? plan_.local_intermediate : request.intermediate_size};
    first_ = p.presharded ? 0 : plan_.local_intermediate * p.tp_rank;
    check_cut();
    check_groups();
  }

  ShardPlan make() {
    for (const ExpertTensorPattern& pattern : *request_.tensors) add_tensors(pattern);
    for (std::size_t local = 0; local < plan_.local_to_logical.size(); ++local) {
      for (const ExpertTensorPattern& pattern : *request_.tensors) {
        add_slices(pattern, static_cast<std::int64_t>(local));
      }
    }
    for (PlannedTensor& tensor : plan_.tensors) {
      tensor.is_needed = std::any_of(plan_.slices.begin(), plan_.slices.end(),
                                     [&](const ShardSlice& s) { return s.tensor == tensor.name; });
    }
    return std::move(plan_);
  }

 private:
  const QuantScheme& scheme() const { return request_.quant->scheme; }

  // A group never ends inside a row: codes and scales are packed by whole groups.
  void check_groups() const {
    const bool is_packed = scheme().payload == PayloadFormat::kE2M1;
    const auto require = [&](std::int64_t unit, const char* what) {
      for (const auto& [name, size] : {std::pair{"hidden_size", request_.hidden_size},
                                       std::pair{"local intermediate_size", file_.i}}) {
        if (size % unit == 0) continue;
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("[weights] {} {}: expected a multiple of the {} {}, use another "
                                "tp_size or correct the config",
                                name, size, what, unit));
      }
    };
    if (scheme().granularity == ScaleGranularity::kGroup) {
      require(scheme().group_size, "quantization group");
    }
    if (is_packed) require(kPackedBlock, "packed block");
  }

  // A tensor-parallel cut must fall between the units of the format.
  void check_cut() const {
    const int tp = request_.parallel.tp_size;
    if (request_.intermediate_size % tp != 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("[weights] intermediate_size {}: expected a multiple of tp_size {}",
                              request_.intermediate_size, tp));
    }
    if (tp == 1 || request_.parallel.presharded) return;
    const auto require = [&](std::int64_t unit, const char* what) {
      if (unit > 0 && plan_.local_intermediate % unit != 0) {
        throw Error(
            ErrorCode::kInvalidArgument,
            fmt::format("[weights] intermediate_size {} over tp_size {} is {} a rank: "
                        "expected a multiple of the {} {}, use a smaller tp_size",
                        request_.intermediate_size, tp, plan_.local_intermediate, what, unit));
      }
    };
    require(scheme().group_size, "quantization group");
    require(scheme().block_n, "quantization block's rows");
    require(scheme().block_k, "quantization block's columns");
  }

  bool is_transposed(const ExpertTensorPattern& pattern) const {
    if (!pattern.orientation_from_shape) return pattern.is_transposed;
    // w13 [E, H, 2I] goes with w2 [E, I, H], w13 [E, 2I, H] with w2 [E, H, I]; one of them can be
    // square, so both are asked.
    int votes[2] = {0, 0};
    for (const ExpertTensorPattern& p : *request_.tensors) {
      const Shape shape = shapes_(module_of(p, 0) + p.weight_suffix);
      const std::int64_t n = logical_rows(p);
      const std::int64_t k = logical_cols(p);
      if (shape.rank() != 3) continue;
      votes[0] += shape[1] == n && shape[2] == k ? 1 : 0;
      votes[1] += shape[1] == k && shape[2] == n ? 1 : 0;
    }
    return votes[1] > votes[0];
  }

  std::int64_t logical_rows(const ExpertTensorPattern& pattern) const {
    if (pattern.shard == ExpertShard::kW2) return file_.h;
    return pattern.shard == ExpertShard::kW13 ? 2 * file_.i : file_.i;
  }
  std::int64_t logical_cols(const ExpertTensorPattern& pattern) const {
    return pattern.shard == ExpertShard::kW2 ? file_.i : file_.h;
  }

  // A slice that covers the whole matrix of one role, as stored.
  ShardSlice whole(const ExpertTensorPattern& pattern, ParamRole role) const {
    ShardSlice s;
    s.role = role;
    s.is_transposed = role != ParamRole::kBias && is_transposed(pattern);
    const std::int64_t n = logical_rows(pattern);
    const std::int64_t k = role == ParamRole::kBias ? 1 : logical_cols(pattern);
    s.tensor_rows = s.is_transposed ? k : n;
    s.tensor_cols = s.is_transposed ? n : k;
    return s;
  }

  Shape stored_shape(const ExpertTensorPattern& pattern, ParamRole role) const {
    const ShardSlice s = whole(pattern, role);
    const std::int64_t e = request_.num_experts;
    const std::int64_t r = s.tensor_rows;
    const std::int64_t c = s.tensor_cols;
    if (role == ParamRole::kBias) return pattern.is_stacked ? Shape{e, r} : Shape{r};
    if (role == ParamRole::kInputScale) return Shape{1};
    if (role == ParamRole::kWeightScale) return scale_shape(pattern, e, r, c);
    if (scheme().payload == PayloadFormat::kE2M1) return Shape{e, r, c / 32, 16};
    if (pattern.is_flattened) return Shape{e * r, c};
    return pattern.is_stacked ? Shape{e, r, c} : Shape{r, c};
  }

  Shape scale_shape(const ExpertTensorPattern& pattern, std::int64_t e, std::int64_t r,
                    std::int64_t c) const {
    std::int64_t rows = 1;
    std::int64_t cols = 1;
    switch (scheme().granularity) {
      case ScaleGranularity::kBlock:
        rows = ceil_div(r, scheme().block_n);
        cols = ceil_div(c, scheme().block_k);
        break;
      case ScaleGranularity::kGroup:
        rows = r;
        cols = ceil_div(c, scheme().group_size);
        break;
      case ScaleGranularity::kChannel:
        rows = r;
        break;
      default:
        return pattern.is_stacked ? Shape{e} : Shape{1};
    }
    return pattern.is_stacked ? Shape{e, rows, cols} : Shape{rows, cols};
  }

  std::vector<std::pair<ParamRole, std::string>> roles(const ExpertTensorPattern& pattern) const {
    std::vector<std::pair<ParamRole, std::string>> result;
    if (scheme().is_quantized()) {
      for (const RoleSuffix& s : request_.quant->suffixes) result.emplace_back(s.role, s.suffix);
    } else {
      result.emplace_back(ParamRole::kWeight, pattern.weight_suffix);
    }
    if (request_.has_bias) result.emplace_back(ParamRole::kBias, pattern.bias_suffix);
    return result;
  }

  void add_tensors(const ExpertTensorPattern& pattern) {
    const std::int64_t count = pattern.is_stacked ? 1 : request_.num_experts;
    for (std::int64_t e = 0; e < count; ++e) {
      for (const auto& [role, suffix] : roles(pattern)) {
        plan_.tensors.push_back(
            {module_of(pattern, e) + suffix, role, stored_shape(pattern, role), false});
      }
    }
  }

  void add_slices(const ExpertTensorPattern& pattern, std::int64_t local) {
    const std::int64_t logical = plan_.local_to_logical[static_cast<std::size_t>(local)];
    for (const auto& [role, suffix] : roles(pattern)) {
      ShardSlice s = whole(pattern, role);
      s.tensor = module_of(pattern, logical) + suffix;
      s.logical_expert = logical;
      s.local_expert = local;
      s.stacked_index = pattern.is_stacked ? logical : 0;
      s.tensor_shape = stored_shape(pattern, role);
      if (pattern.shard == ExpertShard::kW13) {
        add_half(pattern, s, ExpertShard::kW1);
        add_half(pattern, s, ExpertShard::kW3);
      } else {
        s.shard = pattern.shard;
        cut(s, 0, 1);
      }
    }
  }

  void add_half(const ExpertTensorPattern& pattern, ShardSlice s, ExpertShard shard) {
    s.shard = shard;
    const bool is_second = (shard == ExpertShard::kW3) != pattern.is_up_first;
    if (pattern.is_interleaved) {
      cut(s, is_second ? 1 : 0, 2);
    } else {
      cut(s, is_second ? file_.i : 0, 1);
    }
  }

  // Takes this rank's part; the matrix's logical row r is stored row base + r * step.
  void cut(ShardSlice s, std::int64_t base, std::int64_t step) {
    const std::int64_t part = plan_.local_intermediate;
    s.row_step = step;
    if (s.shard == ExpertShard::kW2) {
      s.rows = file_.h;
      s.cols = s.role == ParamRole::kBias ? 1 : part;
      s.first_row = base;
      s.first_col = s.role == ParamRole::kBias ? 0 : first_;
    } else {
      s.rows = part;
      s.cols = s.role == ParamRole::kBias ? 1 : file_.h;
      s.first_row = base + first_ * step;
    }
    plan_.slices.push_back(std::move(s));
  }

  const ExpertLoadRequest& request_;
  const ShapeLookup& shapes_;
  FileSizes file_;
  std::int64_t first_ = 0;
  ShardPlan plan_;
};

}  // namespace

std::string ShardSlice::to_string() const {
  return fmt::format("{} {}[{}] -> expert {} {} {} [{}, {}] from row {} step {} col {}{}", tensor,
                     tensor_shape.to_string(), stacked_index, local_expert, shard_name(shard),
                     role_name(role), rows, cols, first_row, row_step, first_col,
                     is_transposed ? " transposed" : "");
}

std::string ShardPlan::to_string() const {
  std::string text;
  for (const ShardSlice& slice : slices) text += slice.to_string() + "\n";
  return text;
}

ShardPlan make_shard_plan(const ExpertLoadRequest& request, const ShapeLookup& shapes) {
  return Planner(request, shapes).make();
}

}  // namespace fusedmoe
