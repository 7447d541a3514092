// The ledger of a load: which tensors were used, which cells were filled, and everything wrong.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "fusedmoe/checkpoint.h"
#include "fusedmoe/layer.h"
#include "fusedmoe/model.h"

namespace fusedmoe {

/// Collects instead of throwing, so that one error can name everything. Thread-safe.
class LoadLedger {
 public:
  /// A parameter of one local expert; `group` tells routed and shared experts apart.
  using Cell = std::tuple<std::string, int /*role*/, std::int64_t /*local expert*/, int /*shard*/>;

  void mark_used(const std::string& tensor);
  /// A tensor that belongs to the layer and whose experts all live on other ranks.
  void mark_elsewhere(const std::string& tensor);
  void fill(const Cell& cell);
  void add_missing(const std::string& tensor, const std::string& what_for);
  void add_problem(const std::string& message);
  void add_warning(const std::string& message);
  void add_bytes(std::uint64_t read, std::uint64_t staged_at_once);
  bool is_sound() const;

  /// Ends the load: every cell filled once, every tensor below the prefixes used.
  /// @param report receives the ledger in any case, when given.
  /// @throws Error(kCorruptData) listing all problems.
  LoadReport finish(const Checkpoint& checkpoint, const std::vector<std::string>& owned_prefixes,
                    LoadReport* report);

 private:
  mutable std::mutex mutex_;
  std::set<std::string> used_;
  std::map<Cell, int> cells_;
  std::vector<std::string> problems_;
  LoadReport report_;
};

}  // namespace fusedmoe
