// The ledger of a load: which tensors were used, which cells were filled, and everything wrong.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "fusedmoe/checkpoint.h"
#include "fusedmoe/error.h"
#include "fusedmoe/layer.h"
#include "fusedmoe/model.h"

namespace fusedmoe {

/// Collects instead of throwing, so that one error can name everything. Thread-safe; what it lists
/// is sorted, whatever the order in which threads found it.
class LoadLedger {
 public:
  /// A parameter of one local expert; `group` tells routed and shared experts apart.
  using Cell = std::tuple<std::string, int /*role*/, std::int64_t /*local expert*/, int /*shard*/>;

  /// Notes that a cell has to be filled before the load ends.
  void expect(const Cell& cell);
  /// Notes that it was.
  void fill(const Cell& cell);
  void mark_used(const std::string& tensor);
  /// A tensor that belongs to the layer and whose experts all live on other ranks.
  void mark_elsewhere(const std::string& tensor);
  /// @param what_for  for the message: which parameter lacks it, what was expected.
  void add_missing(const std::string& tensor, const std::string& what_for);
  /// @param code  of the error that `finish` throws; that of unsound data gives way to any other.
  void add_problem(const std::string& message, ErrorCode code = ErrorCode::kCorruptData);
  void add_warning(const std::string& message);
  void add_bytes(std::uint64_t read, std::uint64_t staged_at_once);

  /// Ends the load: every expected cell filled once and no other, every tensor below the prefixes
  /// used.
  /// @param report receives the ledger in any case, when given.
  /// @throws Error listing all problems: kCorruptData for what the files lack or hold, or the code
  ///         of another problem (kOutOfMemory of a sink, say); Error(kInternal) naming the cells
  ///         that were not filled once though nothing else went wrong.
  LoadReport finish(const Checkpoint& checkpoint, const std::vector<std::string>& owned_prefixes,
                    LoadReport* report);

 private:
  struct CellState {
    bool is_expected = false;
    int times_filled = 0;
  };
  struct Problem {
    std::string message;
    ErrorCode code;
  };
  void find_unused(const Checkpoint& checkpoint, const std::vector<std::string>& owned_prefixes);
  void check_cells();
  void sort_all();
  ErrorCode code() const;

  std::mutex mutex_;
  std::unordered_set<std::string> used_;
  std::map<Cell, CellState> cells_;
  std::map<std::string, std::string> missing_;  // tensor -> what for
  std::vector<Problem> problems_;
  LoadReport report_;
};

}  // namespace fusedmoe
