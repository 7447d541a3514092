// A table of words: aligned columns for people, pipes for Markdown.
#pragma once

#include <string>
#include <vector>

namespace fusedmoe::cli {

class TextTable {
 public:
  /// A header that starts with '>' is a column aligned to the right; the mark is not printed.
  explicit TextTable(std::vector<std::string> headers);

  /// @param cells as many as there are headers.
  void add_row(std::vector<std::string> cells);

  /// Columns two blanks apart, a line each, no trailing blanks.
  std::string plain(int indent = 0) const;
  std::string markdown() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  ///< the first one is the header
};

/// "1.50 GiB", "768 B".
std::string format_bytes(double bytes);
/// Three significant digits with k, M, G, T: "1.23 M".
std::string format_count(double count);

}  // namespace fusedmoe::cli
