#include "reference/case_table.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace fusedmoe::test {
namespace {

constexpr std::array kDTypes{DType::kF32, DType::kBF16, DType::kF16};
constexpr std::int64_t kNumTokens = 20;

FusedMoEConfig base(std::int64_t hidden_size, std::int64_t intermediate_size, DType dtype) {
  FusedMoEConfig config;
  config.num_experts = 5;
  config.hidden_size = hidden_size;
  config.intermediate_size = intermediate_size;
  config.top_k = 2;
  config.weight_dtype = config.hidden_dtype = dtype;
  return config;
}

void add_shapes(std::vector<LayerCase>& cases) {
  constexpr std::int64_t kShapes[][2] = {{1, 1},   {3, 5},    {17, 33}, {40, 24},
                                         {64, 32}, {33, 130}, {96, 31}, {130, 66}};
  for (const auto& [h, i] : kShapes) {
    for (const DType dtype : kDTypes) {
      cases.push_back({fmt::format("shape_h{}_i{}_{}", h, i, dtype_name(dtype)),
                       base(h, i, dtype),
                       {kNumTokens}});
    }
  }
}

// B53: reductions that are no multiple of any tile, in both products.
void add_reductions(std::vector<LayerCase>& cases) {
  std::vector<std::int64_t> lengths{544, 704, 1856, 2880};
  for (std::int64_t k = 32; k <= 160; k += 8) lengths.push_back(k);
  for (const std::int64_t k : lengths) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      LayerCase in{fmt::format("B53_k{}_w13_{}", k, dtype_name(dtype)), base(k, 24, dtype), {16}};
      LayerCase inner{fmt::format("B53_k{}_w2_{}", k, dtype_name(dtype)), base(40, k, dtype), {16}};
      in.config.num_experts = inner.config.num_experts = 3;
      cases.push_back(in);
      cases.push_back(inner);
    }
  }
}

void add_dtypes(std::vector<LayerCase>& cases) {
  for (const DType weight : kDTypes) {
    for (const DType hidden : kDTypes) {
      FusedMoEConfig config = base(72, 56, weight);
      config.hidden_dtype = hidden;
      cases.push_back({fmt::format("weights_{}_hidden_{}", dtype_name(weight), dtype_name(hidden)),
                       config,
                       {kNumTokens}});
    }
  }
}

void add_activations(std::vector<LayerCase>& cases) {
  struct Row {
    std::string_view name;
    ActivationConfig activation;
  };
  const Row rows[] = {
      {"silu", {Activation::kSilu, true, 1.702F, 0.0F}},
      {"silu_limit", {Activation::kSilu, true, 1.702F, 0.75F}},
      {"gelu", {Activation::kGelu, true, 1.702F, 0.0F}},
      {"gelu_tanh", {Activation::kGeluTanh, true, 1.702F, 0.0F}},
      {"relu2", {Activation::kRelu2, true, 1.702F, 0.0F}},
      {"swigluoai", {Activation::kSwigluOai, true, 1.702F, 0.75F}},
      {"swigluoai_no_limit", {Activation::kSwigluOai, true, 1.25F, 0.0F}},
      {"silu_non_gated", {Activation::kSilu, false, 1.702F, 0.0F}},
      {"gelu_non_gated", {Activation::kGelu, false, 1.702F, 0.0F}},
      {"gelu_tanh_non_gated", {Activation::kGeluTanh, false, 1.702F, 0.0F}},
      {"relu2_non_gated", {Activation::kRelu2, false, 1.702F, 0.0F}},
  };
  for (const Row& row : rows) {
    for (const bool has_bias : {false, true}) {
      for (const bool on_input : {false, true}) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          FusedMoEConfig config = base(56, 40, dtype);
          config.activation = row.activation;
          config.has_bias = has_bias;
          config.apply_router_weight_on_input = on_input;
          cases.push_back({fmt::format("{}{}{}_{}", row.name, has_bias ? "_bias" : "",
                                       on_input ? "_weight_on_input" : "", dtype_name(dtype)),
                           config,
                           {kNumTokens}});
        }
      }
    }
  }
}

void add_routings(std::vector<LayerCase>& cases) {
  struct Row {
    std::string_view name;
    Routing routing;
    std::int64_t num_experts, top_k, num_tokens;
  };
  constexpr Row kRows[] = {
      {"uniform_top1", Routing::kUniform, 8, 1, 17},
      {"uniform_all_experts", Routing::kUniform, 6, 6, 16},
      {"zipf", Routing::kZipf, 16, 4, 67},
      {"all_to_one", Routing::kAllToOne, 7, 1, 70},
      {"all_to_one_top3", Routing::kAllToOne, 4, 3, 33},
      {"absent_ids", Routing::kAbsentIds, 5, 3, 41},
      {"duplicates", Routing::kDuplicates, 5, 4, 23},
      {"empty_experts", Routing::kUniform, 64, 1, 16},
      {"one_expert", Routing::kUniform, 1, 1, 19},
  };
  for (const Row& row : kRows) {
    for (const DType dtype : kDTypes) {
      FusedMoEConfig config = base(48, 24, dtype);
      config.num_experts = row.num_experts;
      config.top_k = row.top_k;
      cases.push_back({fmt::format("routing_{}_{}", row.name, dtype_name(dtype)),
                       config,
                       {row.num_tokens, row.routing}});
    }
  }
}

void add_options(std::vector<LayerCase>& cases) {
  struct Row {
    std::string_view name;
    void (*set)(LayerCase&);
  };
  constexpr Row kRows[] = {
      {"factor_top1",
       [](LayerCase& c) {
         c.config.routed_scaling_factor = 2.5F;
         c.config.top_k = 1;
       }},
      {"factor_top2", [](LayerCase& c) { c.config.routed_scaling_factor = 2.5F; }},
      {"factor_33_tokens",
       [](LayerCase& c) {
         c.config.routed_scaling_factor = 0.3F;
         c.batch.num_tokens = 33;
       }},
      {"no_combine",
       [](LayerCase& c) {
         c.config.no_combine = true;
         c.config.top_k = 3;
       }},
      {"no_combine_top1",
       [](LayerCase& c) {
         c.config.no_combine = true;
         c.config.top_k = 1;
       }},
      {"no_combine_absent",
       [](LayerCase& c) {
         c.config.no_combine = true;
         c.batch.routing = Routing::kAbsentIds;
       }},
      {"identity",
       [](LayerCase& c) {
         c.config.num_identity_experts = 3;
         c.config.top_k = 4;
       }},
      {"identity_no_combine",
       [](LayerCase& c) {
         c.config.num_identity_experts = 2;
         c.config.no_combine = true;
       }},
      {"fused_shared",
       [](LayerCase& c) {
         c.config.num_fused_shared_experts = 2;
         c.config.top_k = 4;
       }},
      {"fused_shared_identity",
       [](LayerCase& c) {
         c.config.num_fused_shared_experts = 1;
         c.config.num_identity_experts = 2;
         c.config.top_k = 3;
         c.config.routed_scaling_factor = 1.5F;
       }},
      {"outliers", [](LayerCase& c) { c.batch.outlier = 60.0; }},
  };
  for (const Row& row : kRows) {
    for (const DType dtype : kDTypes) {
      LayerCase layer_case{fmt::format("option_{}_{}", row.name, dtype_name(dtype)),
                           base(56, 40, dtype),
                           {kNumTokens}};
      row.set(layer_case);
      cases.push_back(layer_case);
    }
  }
}

}  // namespace

std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> cases;
  add_shapes(cases);
  add_reductions(cases);
  add_dtypes(cases);
  add_activations(cases);
  add_routings(cases);
  add_options(cases);
  return cases;
}

std::vector<KernelChoice> usable_kernels(const FusedMoEConfig& config) {
  const ExpertsProblem problem{
      config.hidden_size,  config.intermediate_size / config.parallel.tp_size,
      config.num_experts,  config.top_k,
      config.weight_dtype, config.hidden_dtype,
      config.activation,   config.has_bias};
  // With a kernel forced, only real refusals remain among the reasons, no preferences.
  std::vector<KernelChoice> kernels = choose_kernel(problem, "reference");
  std::erase_if(kernels, [](const KernelChoice& kernel) { return !kernel.reason.empty(); });
  return kernels;
}

}  // namespace fusedmoe::test
