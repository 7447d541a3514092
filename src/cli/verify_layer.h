// Everything that `fusedmoe verify` does to one layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "golden.h"
#include "machine_limits.h"
#include "options.h"

namespace fusedmoe::cli {

/// Memory that loading took, over all ranks the worst.
struct LoadMemory {
  std::int64_t peak_bytes = 0;
  std::int64_t result_bytes = 0;
  std::int64_t allowed_bytes = 0;  ///< result + the larger of 256 MiB and one expert

  bool is_ok() const noexcept { return peak_bytes <= allowed_bytes; }
};

struct Speed {
  double seconds = 0.0;  ///< median
  double tokens_per_second = 0.0;
  Figures figures;
};

struct LayerVerdict {
  int layer = 0;
  std::vector<Check> checks;
  std::vector<std::string> missing;
  std::vector<std::string> unused;
  std::vector<std::string> warnings;
  std::vector<std::string> errors;  ///< why loading stopped
  std::int64_t cells = 0;           ///< over all ranks
  std::uint64_t bytes_read = 0;     ///< over all ranks
  LoadMemory memory;
  PlanReport plan;  ///< of the last rank
  std::vector<std::int64_t> tokens_per_expert;
  std::optional<Speed> speed;

  bool is_ok() const noexcept;
  /// Error of the f32 block output; empty when nothing was recorded.
  std::optional<double> max_row_error() const noexcept;
};

struct VerifySettings {
  GridOptions grid;
  std::string kernel;
  double tolerance = 1e-5;
  double tolerance_bf16 = 3e-2;
  /// Measure speed against these; empty: do not.
  std::optional<MachineLimits> limits;
};

/// @throws Error for everything that is no verdict on the checkpoint's content.
LayerVerdict verify_layer(const OpenModel& model, const MoeLayerDescription& layer,
                          const std::optional<GoldenLayer>& golden, const VerifySettings& settings,
                          Executor& executor);

}  // namespace fusedmoe::cli
