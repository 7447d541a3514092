#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

#include "checkpoint/describe.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

constexpr std::size_t kNumSuggestions = 3;

/// Levenshtein distance.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> nearest(const std::string& name, std::vector<std::string> known) {
  constexpr std::size_t kMaxCompared = 64;  // of a name from a file
  const std::string start = name.substr(0, kMaxCompared);
  std::ranges::stable_sort(known, {},
                           [&](const std::string& k) { return edit_distance(start, k); });
  known.resize(std::min(known.size(), kNumSuggestions));
  return known;
}

ModelFamily family_named(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelFamily& row : builtin_families()) {
    if (row.family == name) return row;
    names.push_back(row.family);
  }
  throw Error(
      ErrorCode::kNotFound,
      fmt::format("[checkpoint] family: expected a row of the family table, got \"{}\"; the "
                  "nearest are {}; or describe it in a file (--family FILE.json)",
                  name, fmt::join(nearest(name, names), ", ")));
}

ModelFamily family_in_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || text.bad()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("[checkpoint] family file: expected a readable JSON file, got none at "
                            "{}, check the path",
                            path.string()));
  }
  return parse_family(text.str(), path.string());
}

}  // namespace

ModelFamily select_family(const ModelConfig& config, const DescribeOptions& options) {
  if (!options.family_file.empty()) return family_in_file(options.family_file);
  if (!options.family.empty()) return family_named(options.family);
  const auto types = config.model_types();
  std::vector<std::string> known;
  for (const ModelFamily& row : builtin_families()) {
    known.insert(known.end(), row.model_types.begin(), row.model_types.end());
  }
  for (const std::string& type : types) {
    for (const ModelFamily& row : builtin_families()) {
      if (std::ranges::find(row.model_types, type) != row.model_types.end()) return row;
    }
  }
  if (types.empty()) config.fail("model_type", "a text", "no such key");
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("[checkpoint] model_type: expected a supported one, got \"{}\" ({}); the "
                  "nearest are {}; name a family or describe one in a file (--family)",
                  types.front(), config.file(), fmt::join(nearest(types.front(), known), ", ")));
}

}  // namespace fusedmoe
