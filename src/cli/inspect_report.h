// What `fusedmoe inspect` says about a checkpoint, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "options.h"

namespace fusedmoe::cli {

std::string inspect_text(const OpenModel& model, const GridOptions& grid);
nlohmann::ordered_json inspect_json(const OpenModel& model, const GridOptions& grid);

}  // namespace fusedmoe::cli
