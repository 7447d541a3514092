#include <fmt/format.h>

#include <array>

#include "fusedmoe/error.h"
#include "quant/announce.h"

namespace fusedmoe {
namespace {

constexpr std::array<std::string_view, 2> kOptionalRoots = {"model.", "language_model."};

std::string_view without_roots(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view root : kOptionalRoots) {
      if (!name.starts_with(root)) continue;
      name.remove_prefix(root.size());
      again = true;
    }
  }
  return name;
}

/// Does `pattern`, with `*` for any run of characters, match all of `text`? Linear space, no
/// recursion: on a mismatch the last star takes one character more.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// Matches the whole name or a prefix that ends between components.
bool matches_prefix(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('.')) pattern.remove_suffix(1);
  if (pattern.empty()) return false;
  if (pattern.find('*') == std::string_view::npos) {
    return name.starts_with(pattern) &&
           (name.size() == pattern.size() || name[pattern.size()] == '.');
  }
  for (std::size_t end = name.find('.'); end != std::string_view::npos;
       end = name.find('.', end + 1)) {
    if (matches(pattern, name.substr(0, end))) return true;
  }
  return matches(pattern, name);
}

}  // namespace

bool is_ignored(const QuantAnnouncement& announcement, std::string_view module) {
  const std::string_view name = without_roots(module);
  for (const std::string& entry : announcement.ignored_modules) {
    if (entry.starts_with("re:")) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("[quant] modules_to_not_convert: expected module names, got the "
                              "regular expression \"{}\", write the modules out",
                              entry));
    }
    if (matches_prefix(without_roots(entry), name)) return true;
  }
  return false;
}

}  // namespace fusedmoe
