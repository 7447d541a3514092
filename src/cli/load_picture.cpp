#include "load_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fusedmoe::cli {
namespace {

constexpr int kHeight = 3;  // lines

struct Glyphs {
  int levels;  // per line; glyph 0 is empty
  const char* glyph[9];
};

constexpr Glyphs kBlocks{8, {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};
constexpr Glyphs kAscii{3, {" ", ".", ":", "|", "", "", "", "", ""}};

// Mean load of each column.
std::vector<double> columns_of(std::span<const std::int64_t> loads, int max_columns) {
  const std::size_t num_columns =
      std::min(loads.size(), static_cast<std::size_t>(std::max(max_columns, 1)));
  std::vector<double> columns;
  for (std::size_t c = 0; c < num_columns; ++c) {
    const std::size_t first = c * loads.size() / num_columns;
    const std::size_t last = (c + 1) * loads.size() / num_columns;
    const auto part = loads.subspan(first, last - first);
    columns.push_back(
        static_cast<double>(std::accumulate(part.begin(), part.end(), std::int64_t{0})) /
        static_cast<double>(part.size()));
  }
  return columns;
}

}  // namespace

std::vector<std::string> load_picture(std::span<const std::int64_t> tokens_per_expert,
                                      int max_columns, bool utf8) {
  const std::vector<double> columns = columns_of(tokens_per_expert, max_columns);
  const double highest = columns.empty() ? 0.0 : *std::max_element(columns.begin(), columns.end());
  if (highest <= 0.0) return {};
  const Glyphs& glyphs = utf8 ? kBlocks : kAscii;
  std::vector<std::string> lines(kHeight);
  for (const double load : columns) {
    // Rounded up: an expert that got anything shows something.
    const int steps = static_cast<int>(std::ceil(load / highest * kHeight * glyphs.levels));
    for (int line = 0; line < kHeight; ++line) {
      const int below = (kHeight - 1 - line) * glyphs.levels;
      lines[static_cast<std::size_t>(line)] +=
          glyphs.glyph[std::clamp(steps - below, 0, glyphs.levels)];
    }
  }
  return lines;
}

std::string load_summary(std::span<const std::int64_t> tokens_per_expert) {
  const std::int64_t total =
      std::accumulate(tokens_per_expert.begin(), tokens_per_expert.end(), std::int64_t{0});
  if (total == 0) return "no expert got a token";
  const auto [idlest, busiest] =
      std::minmax_element(tokens_per_expert.begin(), tokens_per_expert.end());
  const double percent = 100.0 / static_cast<double>(total);
  return fmt::format("busiest expert {}: {:.1f} %, idlest expert {}: {:.1f} %, uniform {:.1f} %",
                     busiest - tokens_per_expert.begin(), static_cast<double>(*busiest) * percent,
                     idlest - tokens_per_expert.begin(), static_cast<double>(*idlest) * percent,
                     100.0 / static_cast<double>(tokens_per_expert.size()));
}

}  // namespace fusedmoe::cli
