// Checks of a layer's configuration.
#include <fmt/format.h>

#include "fusedmoe/layer.h"

namespace fusedmoe {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;
constexpr std::int64_t kMaxExperts = 65536;
constexpr std::int64_t kMaxTopK = 64;

void check_range(std::vector<std::string>& problems, const char* name, std::int64_t value,
                 std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    problems.push_back(fmt::format("{}: expected {} ... {}, got {}", name, least, most, value));
  }
}

}  // namespace

std::vector<std::string> validate(const FusedMoEConfig& c) {
  std::vector<std::string> problems;
  check_range(problems, "num_experts", c.num_experts, 1, kMaxExperts);
  check_range(problems, "hidden_size", c.hidden_size, 1, kMaxSize);
  check_range(problems, "intermediate_size", c.intermediate_size, 1, kMaxSize);
  check_range(problems, "top_k", c.top_k, 1, kMaxTopK);
  check_range(problems, "num_fused_shared_experts", c.num_fused_shared_experts, 0, kMaxExperts);
  check_range(problems, "num_identity_experts", c.num_identity_experts, 0, kMaxExperts);
  for (const auto& [name, dtype] :
       {std::pair("weight_dtype", c.weight_dtype), std::pair("hidden_dtype", c.hidden_dtype)}) {
    if (!is_activation_dtype(dtype)) {
      problems.push_back(
          fmt::format("{}: expected F32, BF16 or F16, got {}", name, dtype_name(dtype)));
    }
  }
  for (std::string& problem : validate(c.activation)) problems.push_back(std::move(problem));
  for (std::string& problem : validate(c.parallel, c.num_experts)) {
    problems.push_back(std::move(problem));
  }
  const int tp = c.parallel.tp_size;
  if (tp >= 1 && c.intermediate_size % tp != 0) {
    problems.push_back(fmt::format("intermediate_size {}: expected a multiple of tp_size {}",
                                   c.intermediate_size, tp));
  }
  if (c.no_combine && c.inplace) {
    problems.push_back(
        "no_combine: its result has another shape than the input, so inplace "
        "cannot be asked for");
  }
  if (c.no_combine && c.routed_scaling_factor != 1.0F) {
    problems.push_back(
        fmt::format("no_combine: the caller sums the slots and applies the factor; "
                    "expected routed_scaling_factor 1, got {}",
                    c.routed_scaling_factor));
  }
  const bool ranks = c.parallel.tp_size > 1 || c.parallel.ep_size > 1;
  if (c.reduce_results && ranks) {
    problems.push_back(
        fmt::format("reduce_results with tp {} x ep {}: this version has no "
                    "communicator; leave it off and sum the partial results",
                    c.parallel.tp_size, c.parallel.ep_size));
  }
  if (c.num_fused_shared_experts > 0 && !c.parallel.physical_to_logical.empty() &&
      static_cast<std::int64_t>(c.parallel.physical_to_logical.size()) > c.num_experts) {
    problems.push_back("num_fused_shared_experts: cannot be combined with replicated experts");
  }
  return problems;
}

}  // namespace fusedmoe
