// The ecosystems that write quantized checkpoints, as a table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusedmoe/quant.h"

namespace fusedmoe {

/// One ecosystem. `read` is null for those that are recognized but not run.
struct Ecosystem {
  std::string_view name;  ///< quant_method, compared as a whole
  std::vector<RoleSuffix> suffixes{};
  std::vector<std::string_view> known_keys{};
  std::vector<std::string_view> ignore_keys{};  ///< lists of modules that are left plain
  /// Fills scheme and suffixes from the description (null: the defaults).
  void (*read)(const nlohmann::json& description, QuantAnnouncement& announcement) = nullptr;
};

std::span<const Ecosystem> ecosystems();

}  // namespace fusedmoe
