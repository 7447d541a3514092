#include "text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace fusedmoe::cli {
namespace {

// Columns that a UTF-8 text takes: its bytes that do not continue a character.
std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string escape_pipes(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string scaled(double value, double step, std::span<const char* const> units) {
  std::size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, units[unit]);
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headers) {
  for (std::string& header : headers) {
    right_.push_back(header.starts_with('>'));
    if (right_.back()) header.erase(0, 1);
  }
  rows_.push_back(std::move(headers));
}

void TextTable::add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string TextTable::plain(int indent) const {
  std::vector<std::size_t> widths(right_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], display_width(row[c]));
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(widths[c] - display_width(row[c]), ' ');
      line += right_[c] ? blanks + row[c] : row[c] + blanks;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string TextTable::markdown() const {
  std::string text;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (const std::string& cell : rows_[r]) text += "| " + escape_pipes(cell) + " ";
    text += "|\n";
    if (r > 0) continue;
    for (const bool right : right_) text += right ? "| ---: " : "| --- ";
    text += "|\n";
  }
  return text;
}

std::string format_bytes(double bytes) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(bytes, 1024.0, kUnits);
}

std::string format_count(double count) {
  static constexpr std::array kUnits{"", "k", "M", "G", "T"};
  std::string text = scaled(count, 1000.0, kUnits);
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace fusedmoe::cli
