// route(): checks the call, then routes row by row.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "fusedmoe/error.h"
#include "fusedmoe/routing.h"
#include "layer/routing/row_router.h"

namespace fusedmoe {
namespace {

using routing::RowRouter;
using routing::RowScratch;

/// Up to here the scratch of a call is a fixed block on the stack.
constexpr std::int64_t kMaxStackExperts = 4096;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "[routing] " + what);
}

bool is_id_dtype(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

std::int64_t id_at(const TensorView& ids, std::int64_t index) {
  return ids.dtype == DType::kI32 ? static_cast<const std::int32_t*>(ids.data)[index]
                                  : static_cast<const std::int64_t*>(ids.data)[index];
}

void check_logits(const TopKConfig& config, const TensorView& logits) {
  const std::int64_t e = config.num_experts;
  if (logits.shape.rank() != 2 || logits.shape[1] != e || !is_activation_dtype(logits.dtype)) {
    fail(fmt::format(
        "router_logits: expected [num_tokens, {}] F32, BF16 or F16, got {} {}, pass the "
        "router's output for all experts",
        e, logits.shape.to_string(), dtype_name(logits.dtype)));
  }
  if (logits.row_stride != 0 && logits.row_stride < e) {
    fail(
        fmt::format("router_logits: expected a row stride of at least {}, got {}, rows must not "
                    "overlap",
                    e, logits.row_stride));
  }
  if (logits.data == nullptr && logits.shape[0] > 0) {
    fail(fmt::format("router_logits: expected data for {}, got a null pointer, pass the memory",
                     logits.shape.to_string()));
  }
}

void check_outputs(std::int64_t num_tokens, std::int64_t top_k, const TopKOutput& out) {
  const auto wanted = static_cast<std::size_t>(num_tokens * top_k);
  const auto check = [&](const char* name, std::size_t got) {
    if (got == wanted) return;
    fail(fmt::format("{}: expected {} x {} = {} elements, got {}, size it by num_tokens and top_k",
                     name, num_tokens, top_k, wanted, got));
  };
  check("topk_ids", out.topk_ids.size());
  check("topk_weights", out.topk_weights.size());
}

void check_options(const TopKConfig& config, std::int64_t num_tokens, const RouteOptions& options) {
  const auto num_map = static_cast<std::int64_t>(options.logical_to_physical.size());
  if (num_map != 0 && num_map != config.num_experts) {
    fail(
        fmt::format("logical_to_physical: expected {} entries or none, got {}, give one physical "
                    "id for each routed expert",
                    config.num_experts, num_map));
  }
  const TensorView& table = options.hash_table;
  if (table.data == nullptr) return;
  const std::int64_t columns = config.top_k - config.num_fused_shared_experts;
  if (config.scoring == ScoringFunc::kSparseMixer) {
    fail(
        "hash_table: expected a scoring function that weighs given ids, got the sparse mixer, "
        "leave the table out");
  }
  if (table.shape.rank() != 2 || table.shape[1] != columns || !is_id_dtype(table.dtype)) {
    fail(
        fmt::format("hash_table: expected [vocab, {}] I32 or I64, got {} {}, one column for each "
                    "routed choice",
                    columns, table.shape.to_string(), dtype_name(table.dtype)));
  }
  const TensorView& ids = options.input_ids;
  if (ids.shape != Shape{num_tokens} || !is_id_dtype(ids.dtype) ||
      (ids.data == nullptr && num_tokens > 0)) {
    fail(fmt::format(
        "input_ids: expected [{}] I32 or I64 beside a hash table, got {} {}{}, pass the "
        "token ids of these rows",
        num_tokens, ids.shape.to_string(), dtype_name(ids.dtype),
        ids.data == nullptr ? " without data" : ""));
  }
}

void load_row(const TensorView& logits, std::int64_t row, std::int64_t num_experts, float* to) {
  const std::int64_t stride = logits.row_stride == 0 ? num_experts : logits.row_stride;
  const auto* from =
      static_cast<const std::byte*>(logits.data) + row * stride * (dtype_bits(logits.dtype) / 8);
  if (logits.dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<std::size_t>(num_experts) * sizeof(float));
    return;
  }
  for (std::int64_t e = 0; e < num_experts; ++e) to[e] = load_as_f32(from, logits.dtype, e);
}

// The table's row of a token; ids that do not fit an expert become -1, as does the whole row of a
// token outside the table.
void look_up(const RouteOptions& options, std::int64_t row, std::int64_t num_experts,
             std::span<std::int32_t> ids) {
  const TensorView& table = options.hash_table;
  const std::int64_t token = id_at(options.input_ids, row);
  const bool is_known = token >= 0 && token < table.shape[0];
  const std::int64_t stride = table.row_stride == 0 ? table.shape[1] : table.row_stride;
  for (std::size_t j = 0; j < ids.size(); ++j) {
    std::int64_t id = -1;
    if (is_known) id = id_at(table, token * stride + static_cast<std::int64_t>(j));
    ids[j] = id >= 0 && id < num_experts ? static_cast<std::int32_t>(id) : -1;
  }
}

struct Call {
  const TopKConfig& config;
  const TensorView& logits;
  const RouteOptions& options;
};

// Returns whether the row was dead.
bool route_row(const Call& call, RowRouter& router, std::int64_t row, std::int32_t* ids,
               float* weights) {
  const TopKConfig& config = call.config;
  const std::int64_t num_routed = config.top_k - config.num_fused_shared_experts;
  load_row(call.logits, row, config.num_experts, router.logits());
  const bool is_alive = router.begin_row();
  if (call.options.hash_table.data != nullptr) {
    look_up(call.options, row, config.num_experts, {ids, static_cast<std::size_t>(num_routed)});
  } else {
    router.select(ids);
  }
  router.finish(ids, weights);
  if (call.options.logical_to_physical.empty()) return !is_alive;
  for (std::int64_t j = 0; j < num_routed; ++j) {
    if (ids[j] < 0) continue;
    ids[j] = call.options.logical_to_physical[static_cast<std::size_t>(ids[j])];
  }
  return !is_alive;
}

void route_rows(const Call& call, const RowScratch& scratch, TopKOutput& out) {
  const std::int64_t k = call.config.top_k;
  const std::int64_t num_tokens = call.logits.shape[0];
  const std::int64_t given = call.options.num_tokens_non_padded;
  const std::int64_t num_real = given < 0 ? num_tokens : std::min(given, num_tokens);
  const bool keeps_padded_weights = call.config.compat == RoutingCompat::kSglang;
  RowRouter router(call.config, scratch);
  for (std::int64_t row = 0; row < num_tokens; ++row) {
    std::int32_t* ids = out.topk_ids.data() + row * k;
    float* weights = out.topk_weights.data() + row * k;
    if (row < num_real) {
      out.num_dead_rows += route_row(call, router, row, ids, weights) ? 1 : 0;
      continue;
    }
    if (keeps_padded_weights) {
      route_row(call, router, row, ids, weights);
    } else {
      std::fill_n(weights, k, 0.0F);
    }
    std::fill_n(ids, k, -1);
  }
}

}  // namespace

void route(const TopKConfig& config, TensorView router_logits, TopKOutput& out,
           const RouteOptions& options) {
  const std::vector<std::string> problems = validate(config);
  if (!problems.empty()) fail(fmt::format("configuration: {}", problems.front()));
  check_logits(config, router_logits);
  check_outputs(router_logits.shape[0], config.top_k, out);
  check_options(config, router_logits.shape[0], options);
  const Call call{config, router_logits, options};
  const std::int64_t size = routing::padded_size(config.num_experts);
  constexpr auto kArrays = RowScratch::kNumFloatArrays;
  if (size <= kMaxStackExperts) {
    alignas(64) float floats[kArrays * kMaxStackExperts];
    std::int32_t ints[kMaxStackExperts];
    return route_rows(call, RowScratch(floats, ints, size), out);
  }
  std::vector<float> floats(static_cast<std::size_t>(kArrays * size));
  std::vector<std::int32_t> ints(static_cast<std::size_t>(size));
  route_rows(call, RowScratch(floats.data(), ints.data(), size), out);
}

void materialize(const BypassedTopK& bypassed, TopKOutput& out) {
  if (bypassed.config == nullptr) {
    fail("bypassed top-k: expected a configuration, got none, set BypassedTopK::config");
  }
  const Shape& hidden = bypassed.hidden_states.shape;
  const Shape& logits = bypassed.router_logits.shape;
  if (hidden.rank() != 2 || logits.rank() != 2 || hidden[0] != logits[0]) {
    fail(
        fmt::format("bypassed top-k: expected hidden_states and router_logits of the same tokens, "
                    "got {} and {}, pass both of one batch",
                    hidden.to_string(), logits.to_string()));
  }
  route(*bypassed.config, bypassed.router_logits, out, bypassed.options);
}

}  // namespace fusedmoe
