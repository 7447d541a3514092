#include "weights/ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "weights/shard_plan.h"

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

std::string cell_name(const LoadLedger::Cell& cell) {
  return fmt::format(
      "{} {} of {} local expert {}", shard_name(static_cast<ExpertShard>(std::get<3>(cell))),
      role_name(static_cast<ParamRole>(std::get<1>(cell))), std::get<0>(cell), std::get<2>(cell));
}

}  // namespace

void LoadLedger::expect(const Cell& cell) {
  const std::lock_guard lock(mutex_);
  cells_[cell].is_expected = true;
}

void LoadLedger::fill(const Cell& cell) {
  const std::lock_guard lock(mutex_);
  ++cells_[cell].times_filled;
}

void LoadLedger::mark_used(const std::string& tensor) {
  const std::lock_guard lock(mutex_);
  used_.insert(tensor);
}

void LoadLedger::mark_elsewhere(const std::string& tensor) {
  const std::lock_guard lock(mutex_);
  if (used_.insert(tensor).second) ++report_.skipped_other_rank;
}

void LoadLedger::add_missing(const std::string& tensor, const std::string& what_for) {
  const std::lock_guard lock(mutex_);
  missing_.emplace(tensor, what_for);
}

void LoadLedger::add_problem(const std::string& message, ErrorCode code) {
  const std::lock_guard lock(mutex_);
  problems_.push_back({message, code});
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

void LoadLedger::find_unused(const Checkpoint& checkpoint,
                             const std::vector<std::string>& owned_prefixes) {
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (is_below(tensor.name, owned_prefixes) && !used_.contains(tensor.name)) {
      report_.unused.push_back(tensor.name);
    }
  }
}

// A cell that stays empty has its reason among the problems. Without any, it is our own fault and
// must not pass either.
void LoadLedger::check_cells() {
  const bool has_reason = !problems_.empty() || !missing_.empty();
  for (const auto& [cell, state] : cells_) {
    if (state.times_filled == 1 && state.is_expected) ++report_.cells;
    const int wanted = state.is_expected ? 1 : 0;
    if (state.times_filled == wanted || (has_reason && state.times_filled < wanted)) continue;
    problems_.push_back({fmt::format("{}: expected to be filled {} time(s), got {}, please report",
                                     cell_name(cell), wanted, state.times_filled),
                         ErrorCode::kInternal});
  }
}

void LoadLedger::sort_all() {
  std::ranges::sort(problems_, {}, &Problem::message);
  std::ranges::sort(report_.warnings);
  for (const auto& [tensor, what_for] : missing_) report_.missing.push_back(tensor);
}

ErrorCode LoadLedger::code() const {
  for (const Problem& problem : problems_) {
    if (problem.code != ErrorCode::kCorruptData) return problem.code;
  }
  return ErrorCode::kCorruptData;
}

LoadReport LoadLedger::finish(const Checkpoint& checkpoint,
                              const std::vector<std::string>& owned_prefixes, LoadReport* report) {
  const std::lock_guard lock(mutex_);
  find_unused(checkpoint, owned_prefixes);
  check_cells();
  sort_all();
  if (report != nullptr) *report = report_;
  if (problems_.empty() && missing_.empty() && report_.unused.empty()) return report_;
  std::vector<std::string> missing;
  for (const auto& [tensor, what_for] : missing_) {
    missing.push_back(what_for.empty() ? tensor : fmt::format("{} ({})", tensor, what_for));
  }
  std::vector<std::string> wrong;
  for (const Problem& problem : problems_) wrong.push_back(problem.message);
  const ErrorCode error_code = code();
  const bool is_of_files = error_code == ErrorCode::kCorruptData;
  std::string text =
      fmt::format("[weights] {}: {}", checkpoint.path().string(),
                  is_of_files ? "the checkpoint does not fit the layer" : "loading failed");
  append_list(text, "missing", missing);
  append_list(text, "wrong", wrong);
  append_list(text, "unused tensors below the layer's prefixes", report_.unused);
  if (is_of_files) {
    text +=
        "\n  check that config.json belongs to these files, or describe the family in a file "
        "(--family)";
  }
  throw Error(error_code, text);
}

}  // namespace fusedmoe
