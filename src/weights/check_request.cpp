#include "weights/check_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fusedmoe/error.h"
#include "weights/shard_plan.h"

namespace fusedmoe {
namespace {

constexpr std::int64_t kPackedBlock = 32;  // 4-bit elements in the 16 bytes of a stored block

[[noreturn]] void refuse(ErrorCode code, const ExpertLoadRequest& request,
                         const std::string& message) {
  throw Error(code, fmt::format("[weights] {} experts: {}", request.group, message));
}

bool holds(const ExpertTensorPattern& pattern, ExpertShard shard) {
  return pattern.shard == shard ||
         (pattern.shard == ExpertShard::kW13 && shard != ExpertShard::kW2);
}

void check_shards(const ExpertLoadRequest& request) {
  for (const ExpertShard shard : {ExpertShard::kW1, ExpertShard::kW3, ExpertShard::kW2}) {
    const auto count = std::count_if(request.tensors->begin(), request.tensors->end(),
                                     [&](const auto& pattern) { return holds(pattern, shard); });
    const int wanted = shard == ExpertShard::kW3 && !request.is_gated ? 0 : 1;
    if (count == wanted) continue;
    refuse(ErrorCode::kInvalidArgument, request,
           fmt::format("{} of {} experts: expected {} tensor pattern(s), got {}, correct the "
                       "family's layout",
                       shard_name(shard), request.is_gated ? "gated" : "non-gated", wanted, count));
  }
}

void check_pattern(const ExpertLoadRequest& request, const ExpertTensorPattern& pattern) {
  struct Rule {
    bool is_broken;
    const char* expected;
  };
  const bool names_expert = pattern.module.find(kExpertMark) != std::string::npos;
  const QuantScheme& scheme = request.quant->scheme;
  const std::array rules = {
      Rule{pattern.is_stacked && names_expert, "no {expert} in the name of a stacked tensor"},
      Rule{!pattern.is_stacked && !names_expert && request.num_experts > 1,
           "{expert} in the name of a tensor of one expert"},
      Rule{pattern.is_flattened && !pattern.is_stacked, "a flattened tensor to be stacked"},
      Rule{pattern.is_transposed && scheme.payload == PayloadFormat::kE2M1,
           "rows of packed codes, [N, K], not transposed"},
      Rule{request.has_bias && pattern.bias_suffix == pattern.weight_suffix,
           "a bias_suffix other than the weight's"},
  };
  for (const Rule& rule : rules) {
    if (!rule.is_broken) continue;
    refuse(ErrorCode::kInvalidArgument, request,
           fmt::format("{} ({}): expected {}, correct the family's layout", pattern.module,
                       shard_name(pattern.shard), rule.expected));
  }
}

void check_roles(const ExpertLoadRequest& request) {
  if (!request.quant->scheme.is_quantized()) return;
  const auto& suffixes = request.quant->suffixes;
  const auto count = [&](ParamRole role) {
    return std::ranges::count(suffixes, role, &RoleSuffix::role);
  };
  for (const ParamRole role : {ParamRole::kWeight, ParamRole::kWeightScale}) {
    if (count(role) == 1) continue;
    refuse(ErrorCode::kInvalidArgument, request,
           fmt::format("{}: expected one suffix for its tensors in scheme {}, got {}, correct the "
                       "quantization's description",
                       role_name(role), request.quant->scheme.name, count(role)));
  }
  for (const RoleSuffix& suffix : suffixes) {
    const bool is_read = suffix.role == ParamRole::kWeight ||
                         suffix.role == ParamRole::kWeightScale ||
                         suffix.role == ParamRole::kInputScale;
    if (is_read && count(suffix.role) == 1) continue;
    refuse(is_read ? ErrorCode::kInvalidArgument : ErrorCode::kUnsupported, request,
           fmt::format("{}: expected weights, one scale each and at most one input scale, got "
                       "suffix \"{}\", use a checkpoint in such a format",
                       role_name(suffix.role), suffix.suffix));
  }
}

void check_scheme(const ExpertLoadRequest& request) {
  const QuantScheme& scheme = request.quant->scheme;
  if (!scheme.is_quantized()) return;
  constexpr std::array kPayloads = {PayloadFormat::kF8E4M3, PayloadFormat::kF8E4M3Fnuz,
                                    PayloadFormat::kF8E5M2, PayloadFormat::kE2M1};
  const bool is_packed = scheme.payload == PayloadFormat::kE2M1;
  const bool is_known = std::ranges::find(kPayloads, scheme.payload) != kPayloads.end() &&
                        scheme.packing == (is_packed ? Packing::kNibblesLowFirst : Packing::kNone);
  const bool has_more = scheme.scale_divides || scheme.has_scale_2 || scheme.has_zero_points ||
                        scheme.act_order || scheme.granularity == ScaleGranularity::kNone;
  if (!is_known || has_more) {
    refuse(ErrorCode::kUnsupported, request,
           fmt::format("scheme {}: expected fp8 or mxfp4 codes with one multiplying scale, got "
                       "another format, use such a checkpoint",
                       scheme.name));
  }
  const bool has_units =
      (scheme.granularity != ScaleGranularity::kGroup || scheme.group_size > 0) &&
      (scheme.granularity != ScaleGranularity::kBlock ||
       (scheme.block_n > 0 && scheme.block_k > 0));
  if (has_units) return;
  refuse(ErrorCode::kInvalidArgument, request,
         fmt::format("scheme {}: expected a group or block size of at least 1, got group {} and "
                     "block [{}, {}], correct the quantization's description",
                     scheme.name, scheme.group_size, scheme.block_n, scheme.block_k));
}

// A group never ends inside a row: codes and scales are packed by whole groups.
void check_groups(const ExpertLoadRequest& request) {
  const QuantScheme& scheme = request.quant->scheme;
  const std::int64_t local = request.intermediate_size / request.parallel.tp_size;
  const auto require = [&](std::int64_t unit, const char* what) {
    for (const auto& [name, size] :
         {std::pair{"hidden_size", request.hidden_size}, std::pair{"intermediate_size", local}}) {
      if (size % unit == 0) continue;
      refuse(ErrorCode::kInvalidArgument, request,
             fmt::format("{} {} (tp_size {}): expected a multiple of the {} {}, use a smaller "
                         "tp_size or correct the config",
                         name, size, request.parallel.tp_size, what, unit));
    }
  };
  if (scheme.granularity == ScaleGranularity::kGroup) {
    require(scheme.group_size, "quantization group");
  }
  if (scheme.payload == PayloadFormat::kE2M1) require(kPackedBlock, "packed block");
}

// A tensor-parallel cut falls between blocks; only the end of the whole matrix is ragged.
void check_cut(const ExpertLoadRequest& request) {
  const int tp = request.parallel.tp_size;
  const QuantScheme& scheme = request.quant->scheme;
  if (request.hidden_size < 1 || request.intermediate_size < 1) {
    refuse(ErrorCode::kInvalidArgument, request,
           fmt::format("hidden_size and intermediate_size: expected at least 1, got {} and {}, "
                       "correct the config",
                       request.hidden_size, request.intermediate_size));
  }
  if (request.intermediate_size % tp != 0) {
    refuse(ErrorCode::kInvalidArgument, request,
           fmt::format("intermediate_size {}: expected a multiple of tp_size {}, use another "
                       "tp_size",
                       request.intermediate_size, tp));
  }
  check_groups(request);
  const bool is_cut = tp > 1 && !request.parallel.presharded;
  if (!is_cut || scheme.granularity != ScaleGranularity::kBlock) return;
  const std::int64_t local = request.intermediate_size / tp;
  for (const auto& [side, unit] :
       {std::pair{"rows", scheme.block_n}, std::pair{"columns", scheme.block_k}}) {
    if (local % unit == 0) continue;
    refuse(ErrorCode::kInvalidArgument, request,
           fmt::format("intermediate_size {} over tp_size {} is {} a rank: expected a multiple of "
                       "the quantization block's {} {}, use a smaller tp_size",
                       request.intermediate_size, tp, local, side, unit));
  }
}

}  // namespace

std::vector<ExpertShard> shards_of_expert(const ExpertLoadRequest& request) {
  if (!request.is_gated) return {ExpertShard::kW1, ExpertShard::kW2};
  return {ExpertShard::kW1, ExpertShard::kW3, ExpertShard::kW2};
}

std::vector<RoleSuffix> roles_of(const ExpertLoadRequest& request,
                                 const ExpertTensorPattern& pattern) {
  std::vector<RoleSuffix> roles;
  if (request.quant->scheme.is_quantized()) {
    roles = request.quant->suffixes;
  } else {
    roles = {{ParamRole::kWeight, pattern.weight_suffix}};
  }
  if (request.has_bias) roles.push_back({ParamRole::kBias, pattern.bias_suffix});
  return roles;
}

void check_request(const ExpertLoadRequest& request) {
  const std::vector<std::string> problems = validate(request.parallel, request.num_experts);
  if (!problems.empty()) refuse(ErrorCode::kInvalidArgument, request, problems.front());
  check_shards(request);
  check_scheme(request);
  check_roles(request);
  for (const ExpertTensorPattern& pattern : *request.tensors) check_pattern(request, pattern);
  check_cut(request);
}

}  // namespace fusedmoe
