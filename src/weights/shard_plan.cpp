#include "weights/shard_plan.h"

#include <fmt/format.h>

#include <array>
#include <unordered_set>

#include "quant/scale_grid.h"
#include "weights/check_request.h"

namespace fusedmoe {
namespace {

std::string module_of(const ExpertTensorPattern& pattern, std::int64_t expert) {
  std::string name = pattern.module;
  const std::size_t at = name.find(kExpertMark);
  if (at != std::string::npos) name.replace(at, kExpertMark.size(), std::to_string(expert));
  return name;
}

// What the file's tensors look like, before any cut: sizes in the file are those of one
// tensor-parallel rank when they are presharded.
struct FileSizes {
  std::int64_t h = 0;
  std::int64_t i = 0;
};

// The request has passed check_request.
class Planner {
 public:
  Planner(const ExpertLoadRequest& request, const ShapeLookup& shapes)
      : request_(request), patterns_(*request.tensors) {
    const ParallelLayout& p = request.parallel;
    plan_.hidden_size = request.hidden_size;
    plan_.local_intermediate = request.intermediate_size / p.tp_size;
    plan_.local_to_logical = local_to_logical(p, request.num_experts);
    file_ = {request.hidden_size,
             p.presharded ? plan_.local_intermediate : request.intermediate_size};
    first_ = p.presharded ? 0 : plan_.local_intermediate * p.tp_rank;
    settle_orientation(shapes);
  }

  ShardPlan make() {
    for (std::size_t local = 0; local < plan_.local_to_logical.size(); ++local) {
      for (const ExpertTensorPattern& pattern : patterns_) {
        add_slices(pattern, static_cast<std::int64_t>(local));
      }
    }
    std::unordered_set<std::string_view> needed;
    for (const ShardSlice& slice : plan_.slices) needed.insert(slice.tensor);
    for (const ExpertTensorPattern& pattern : patterns_) add_tensors(pattern, needed);
    return std::move(plan_);
  }

 private:
  const QuantScheme& scheme() const { return request_.quant->scheme; }

  // w13 [E, H, 2I] goes with w2 [E, I, H], w13 [E, 2I, H] with w2 [E, H, I]. One of them can be
  // square, so they decide together; where they disagree, the check of shapes names the odd one.
  void settle_orientation(const ShapeLookup& shapes) {
    bool all_fit_transposed = true;
    bool all_fit_plain = true;
    for (const ExpertTensorPattern& p : patterns_) {
      if (!p.orientation_from_shape) continue;
      const Shape shape = shapes(module_of(p, 0) + p.weight_suffix);
      const Shape transposed{request_.num_experts, logical_cols(p), logical_rows(p)};
      const Shape plain{request_.num_experts, logical_rows(p), logical_cols(p)};
      if (shape.rank() == 0) continue;  // absent, which is reported later
      all_fit_transposed = all_fit_transposed && shape == transposed;
      all_fit_plain = all_fit_plain && shape == plain;
    }
    for (ExpertTensorPattern& p : patterns_) {
      if (p.orientation_from_shape) p.is_transposed = all_fit_transposed && !all_fit_plain;
    }
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
    s.is_transposed = role != ParamRole::kBias && pattern.is_transposed;
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
    const bool is_scalar =
        role == ParamRole::kInputScale || scheme().granularity == ScaleGranularity::kTensor;
    if (role == ParamRole::kBias) return pattern.is_stacked ? Shape{e, r} : Shape{r};
    if (role != ParamRole::kWeight && is_scalar) return Shape{pattern.is_stacked ? e : 1};
    if (role == ParamRole::kWeightScale) {
      const ScaleGrid grid = scale_grid(scheme(), r, c);
      return pattern.is_stacked ? Shape{e, grid.rows, grid.cols} : Shape{grid.rows, grid.cols};
    }
    if (pattern.is_flattened) return Shape{e * r, c};
    return pattern.is_stacked ? Shape{e, r, c} : Shape{r, c};
  }

  void add_tensors(const ExpertTensorPattern& pattern,
                   const std::unordered_set<std::string_view>& needed) {
    const std::int64_t count = pattern.is_stacked ? 1 : request_.num_experts;
    for (const auto& [role, suffix] : roles_of(request_, pattern)) {
      const Shape shape = stored_shape(pattern, role);
      for (std::int64_t e = 0; e < count; ++e) {
        std::string name = module_of(pattern, e) + suffix;
        const bool is_needed = needed.contains(name);
        plan_.tensors.push_back(
            {std::move(name), role, shape, is_needed, pattern.shard, pattern.is_stacked ? -1 : e});
      }
    }
  }

  void add_slices(const ExpertTensorPattern& pattern, std::int64_t local) {
    const std::int64_t logical = plan_.local_to_logical[static_cast<std::size_t>(local)];
    for (const auto& [role, suffix] : roles_of(request_, pattern)) {
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
  std::vector<ExpertTensorPattern> patterns_;  // of the request, with their orientation settled
  FileSizes file_;
  std::int64_t first_ = 0;
  ShardPlan plan_;
};

}  // namespace

std::string_view shard_name(ExpertShard shard) noexcept {
  constexpr std::array<std::string_view, 4> kNames = {"w1", "w3", "w2", "w13"};
  return kNames[static_cast<std::size_t>(shard)];
}

std::string_view role_name(ParamRole role) noexcept {
  constexpr std::array<std::string_view, 8> kNames = {
      "weight",      "bias",       "weight_scale", "weight_scale_2",
      "input_scale", "zero_point", "g_idx",        "weight_shape"};
  return kNames[static_cast<std::size_t>(role)];
}

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
  check_request(request);
  return Planner(request, shapes).make();
}

}  // namespace fusedmoe
