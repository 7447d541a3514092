#include "weights/ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

// A message lists at most this many of one kind and says how many there are.
constexpr std::size_t kMostListed = 20;

void append_list(std::string& text, const char* title, const std::vector<std::string>& items) {
  if (items.empty()) return;
  text += fmt::format("\n  {} ({}):", title, items.size());
  for (std::size_t i = 0; i < std::min(items.size(), kMostListed); ++i) text += "\n    " + items[i];
  if (items.size() > kMostListed) {
    text += fmt::format("\n    ... and {} more", items.size() - kMostListed);
  }
}

bool is_below(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return name.starts_with(prefix); });
}

}  // namespace

void LoadLedger::mark_used(const std::string& tensor) {
  const std::lock_guard lock(mutex_);
  used_.insert(tensor);
}

void LoadLedger::mark_elsewhere(const std::string& tensor) {
  const std::lock_guard lock(mutex_);
  if (used_.insert(tensor).second) ++report_.skipped_other_rank;
}

void LoadLedger::fill(const Cell& cell) {
  const std::lock_guard lock(mutex_);
  ++cells_[cell];
}

void LoadLedger::add_missing(const std::string& tensor, const std::string& what_for) {
  const std::lock_guard lock(mutex_);
  report_.missing.push_back(what_for.empty() ? tensor : fmt::format("{} ({})", tensor, what_for));
}

void LoadLedger::add_problem(const std::string& message) {
  const std::lock_guard lock(mutex_);
  problems_.push_back(message);
}

void LoadLedger::add_warning(const std::string& message) {
  const std::lock_guard lock(mutex_);
  report_.warnings.push_back(message);
}

void LoadLedger::add_bytes(std::uint64_t read, std::uint64_t staged_at_once) {
  const std::lock_guard lock(mutex_);
  report_.bytes_read += read;
  report_.peak_staging_bytes = std::max(report_.peak_staging_bytes, staged_at_once);
}

bool LoadLedger::is_sound() const {
  const std::lock_guard lock(mutex_);
  return problems_.empty() && report_.missing.empty();
}

LoadReport LoadLedger::finish(const Checkpoint& checkpoint,
                              const std::vector<std::string>& owned_prefixes, LoadReport* report) {
  const std::lock_guard lock(mutex_);
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (is_below(tensor.name, owned_prefixes) && !used_.contains(tensor.name)) {
      report_.unused.push_back(tensor.name);
    }
  }
  for (const auto& [cell, count] : cells_) {
    if (count != 1) {
      problems_.push_back(fmt::format("{} local expert {}: filled {} times", std::get<0>(cell),
                                      std::get<2>(cell), count));
    }
  }
  report_.cells = static_cast<std::int64_t>(cells_.size());
  if (report != nullptr) *report = report_;
  if (problems_.empty() && report_.missing.empty() && report_.unused.empty()) return report_;
  std::string text = fmt::format("[weights] {}: the checkpoint does not fit the layer",
                                 checkpoint.path().string());
  append_list(text, "missing", report_.missing);
  append_list(text, "wrong", problems_);
  append_list(text, "unused tensors below the layer's prefixes", report_.unused);
  text +=
      "\n  check that config.json belongs to these files, or describe the family in a file "
      "(--family)";
  throw Error(ErrorCode::kCorruptData, text);
}

}  // namespace fusedmoe
