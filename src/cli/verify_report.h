// How `fusedmoe verify` tells its verdict.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "verify_layer.h"

namespace fusedmoe::cli {

/// Lines about one layer; with `show` the kernel, the speed and a picture of the load as well.
std::string verdict_text(const LayerVerdict& verdict, bool show);
nlohmann::ordered_json verdict_json(const LayerVerdict& verdict);
/// "avx512_f32 (cpu_f32): best that runs here; amx_bf16: no AMX".
std::string kernel_words(const PlanReport& plan);

}  // namespace fusedmoe::cli
