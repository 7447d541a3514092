// A picture of how many slots each expert got.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fusedmoe::cli {

/// Lines of a small bar chart, one column an expert; neighbors share a column (their mean) when
/// there are more experts than `max_columns`. Blocks of UTF-8 when allowed, else ASCII.
std::vector<std::string> load_picture(std::span<const std::int64_t> tokens_per_expert,
                                      int max_columns, bool utf8);

/// "busiest expert 7: 6.4 %, idlest expert 12: 0.3 %, uniform 3.1 %".
std::string load_summary(std::span<const std::int64_t> tokens_per_expert);

}  // namespace fusedmoe::cli
