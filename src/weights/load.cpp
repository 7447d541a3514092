#include "weights/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>

#include "fusedmoe/error.h"
#include "weights/check_request.h"
#include "weights/place.h"
#include "weights/shard_plan.h"
#include "weights/stage_expert.h"
#include "weights/tensor_form.h"

namespace fusedmoe {
namespace {

// Staging of all threads together stays below this, or one expert where an expert is larger.
constexpr std::uint64_t kMostStagingBytes = std::uint64_t{256} << 20;

// Tells the caller's callback of each step, one thread at a time, so that what it hears only grows.
class Progress {
 public:
  Progress(const LoadOptions& options, std::uint64_t total_bytes, LoadLedger& ledger)
      : callback_(options.progress), total_bytes_(total_bytes), ledger_(ledger) {}

  void add(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_bytes_ += bytes;
    if (!callback_ || has_failed_) return;
    try {
      callback_(done_bytes_, total_bytes_);
    } catch (const std::exception& error) {
      fail(error.what());
    } catch (...) {
      fail("an exception of unknown type");
    }
  }

 private:
  void fail(const char* what) {
    has_failed_ = true;
    ledger_.add_problem(
        fmt::format("progress callback: expected it to return, got an exception: {}", what),
        ErrorCode::kInvalidArgument);
  }

  std::mutex mutex_;
  const std::function<void(std::uint64_t, std::uint64_t)>& callback_;
  const std::uint64_t total_bytes_;
  LoadLedger& ledger_;
  std::uint64_t done_bytes_ = 0;
  bool has_failed_ = false;
};

// One run of the loader over one group.
class GroupLoader {
 public:
  GroupLoader(const Checkpoint& checkpoint, const ExpertLoadRequest& request, LoadLedger& ledger)
      : checkpoint_(checkpoint),
        request_(request),
        ledger_(ledger),
        plan_(make_shard_plan(request, [&](const std::string& name) {
          const TensorInfo* info = checkpoint.find(name);
          return info == nullptr ? Shape() : info->shape;
        })) {}

  void skip() {
    for (const PlannedTensor& tensor : plan_.tensors) {
      if (checkpoint_.find(tensor.name) != nullptr) ledger_.mark_elsewhere(tensor.name);
    }
  }

  // What has to be filled follows from the request alone, so that a plan that forgets something
  // cannot pass.
  void expect_cells() {
    by_expert_.resize(plan_.local_to_logical.size());
    for (const ShardSlice& slice : plan_.slices) {
      ExpertSlices& slices = by_expert_[static_cast<std::size_t>(slice.local_expert)];
      if (slices.emplace(std::pair(slice.shard, slice.role), &slice).second) continue;
      throw Error(ErrorCode::kInternal,
                  fmt::format("[weights] plan of {} experts: expected one slice for {} {} of local "
                              "expert {}, got two, please report",
                              request_.group, shard_name(slice.shard), role_name(slice.role),
                              slice.local_expert));
    }
    for (std::size_t local = 0; local < by_expert_.size(); ++local) {
      for (const ExpertShard shard : shards_of_expert(request_)) {
        for (const RoleSuffix& role : roles_of(request_, request_.tensors->front())) {
          ledger_.expect(cell_of(static_cast<std::int64_t>(local), shard, role.role));
          if (by_expert_[local].contains({shard, role.role})) continue;
          throw Error(ErrorCode::kInternal,
                      fmt::format("[weights] plan of {} experts: expected a slice for {} {} of "
                                  "local expert {}, got none{}, please report",
                                  request_.group, shard_name(shard), role_name(role.role), local,
                                  place_of(checkpoint_, request_)));
        }
      }
    }
  }

  // Shapes and dtypes of all tensors, before any of their bytes is read.
  bool check() {
    bool sound = true;
    for (const PlannedTensor& tensor : plan_.tensors) sound = check_tensor(tensor) && sound;
    return sound;
  }

  void load(const LoadOptions& options) {
    const auto count = static_cast<std::int64_t>(by_expert_.size());
    const std::uint64_t each = ExpertStage::bytes_needed(request_, plan_.local_intermediate);
    const auto affordable = static_cast<std::int64_t>(
        std::max<std::uint64_t>(kMostStagingBytes / std::max<std::uint64_t>(each, 1), 1));
    const int threads = options.executor == nullptr ? 1 : options.executor->num_threads();
    const std::int64_t active = std::min({std::int64_t{threads}, affordable, count});
    std::uint64_t total_bytes = 0;
    for (const ShardSlice& slice : plan_.slices) total_bytes += bytes_of(slice);
    ledger_.add_bytes(total_bytes, each * static_cast<std::uint64_t>(active));
    Progress progress(options, total_bytes, ledger_);
    Work work{this, &progress, count, active};
    if (options.executor == nullptr) {
      run_thread(&work, 0);
    } else {
      options.executor->run(run_thread, &work);
    }
    if (const std::int64_t zeros = num_zero_scales_.load(); zeros > 0) {
      ledger_.add_warning(fmt::format(
          "{} experts: {} scales are zero, over codes that are all zero", request_.group, zeros));
    }
  }

 private:
  struct Work {
    GroupLoader* loader;
    Progress* progress;
    std::int64_t count, active;
    std::atomic<std::int64_t> next{0};
  };

  LoadLedger::Cell cell_of(std::int64_t local, ExpertShard shard, ParamRole role) const {
    return {request_.group, static_cast<int>(role), local, static_cast<int>(shard)};
  }

  static std::string purpose(const PlannedTensor& tensor) {
    return fmt::format("{} {} of {}", shard_name(tensor.shard), role_name(tensor.role),
                       tensor.expert < 0 ? "all experts" : fmt::format("expert {}", tensor.expert));
  }

  bool check_tensor(const PlannedTensor& tensor) {
    const TensorInfo* info = checkpoint_.find(tensor.name);
    const std::vector<TensorForm> forms =
        accepted_forms(request_.quant->scheme, tensor.role, tensor.shape);
    if (info == nullptr) {
      ledger_.add_missing(tensor.name,
                          fmt::format("{}: expected {}{}", purpose(tensor), to_string(forms),
                                      place_of(checkpoint_, request_, tensor.name)));
      return false;
    }
    if (tensor.is_needed) {
      ledger_.mark_used(tensor.name);
    } else {
      ledger_.mark_elsewhere(tensor.name);
    }
    const bool is_sound = std::ranges::any_of(
        forms, [&](const TensorForm& form) { return form.accepts(info->dtype, info->shape); });
    if (is_sound) return true;
    ledger_.add_problem(fmt::format("{}: {}: expected {}, got {} {}{}", tensor.name,
                                    purpose(tensor), to_string(forms), info->shape.to_string(),
                                    dtype_name(info->dtype),
                                    place_of(checkpoint_, request_, tensor.name)));
    return false;
  }

  std::uint64_t bytes_of(const ShardSlice& slice) const {
    if (slice.role != ParamRole::kWeight) return 0;
    const bool is_packed = request_.quant->scheme.payload == PayloadFormat::kE2M1;
    const int bits = is_packed ? 4 : dtype_bits(checkpoint_.find(slice.tensor)->dtype);
    return static_cast<std::uint64_t>(slice.rows * slice.cols) * static_cast<std::uint64_t>(bits) /
           8;
  }

  static void run_thread(void* raw, int thread) {
    auto& work = *static_cast<Work*>(raw);
    if (thread >= work.active) return;
    std::optional<ExpertStage> stage;
    for (std::int64_t e = work.next++; e < work.count; e = work.next++) {
      work.loader->load_guarded(e, stage);
      std::uint64_t bytes = 0;
      for (const auto& [what, slice] : work.loader->by_expert_[static_cast<std::size_t>(e)]) {
        bytes += work.loader->bytes_of(*slice);
      }
      work.progress->add(bytes);
    }
  }

  // Worker threads do not throw: what goes wrong is a problem in the ledger.
  void load_guarded(std::int64_t local, std::optional<ExpertStage>& stage) {
    try {
      if (!stage) stage.emplace(checkpoint_, request_);
      load_expert(local, *stage);
    } catch (const Error& error) {
      add_failure(local, error.code(), error.what());
    } catch (const std::bad_alloc&) {
      const std::uint64_t bytes = ExpertStage::bytes_needed(request_, plan_.local_intermediate);
      add_failure(local, ErrorCode::kOutOfMemory,
                  fmt::format("expected {} bytes to stage it and what the layer needs, got no more "
                              "memory, load with fewer threads",
                              bytes));
    } catch (const std::exception& error) {
      add_failure(local, ErrorCode::kInternal, error.what());
    } catch (...) {
      add_failure(local, ErrorCode::kInternal, "an exception of unknown type");
    }
  }

  void add_failure(std::int64_t local, ErrorCode code, const std::string& what) {
    ledger_.add_problem(fmt::format("{} expert {} (local {}): {}{}", request_.group,
                                    plan_.local_to_logical[static_cast<std::size_t>(local)], local,
                                    what, place_of(checkpoint_, request_)),
                        code);
  }

  void load_expert(std::int64_t local, ExpertStage& stage) {
    const ExpertSlices& slices = by_expert_[static_cast<std::size_t>(local)];
    std::string problem;
    const ExpertTensors tensors = stage.stage(slices, problem);
    if (!problem.empty()) {
      ledger_.add_problem(problem);
      return;
    }
    num_zero_scales_ += stage.num_zero_scales();
    request_.sink(local, tensors);
    for (const auto& [what, slice] : slices) {
      ledger_.fill(cell_of(local, what.first, what.second));
    }
  }

  const Checkpoint& checkpoint_;
  const ExpertLoadRequest& request_;
  LoadLedger& ledger_;
  const ShardPlan plan_;
  std::vector<ExpertSlices> by_expert_;
  std::atomic<std::int64_t> num_zero_scales_{0};
};

}  // namespace

void load_experts(const Checkpoint& checkpoint, const ExpertLoadRequest& request,
                  const LoadOptions& options, LoadLedger& ledger) {
  GroupLoader loader(checkpoint, request, ledger);
  loader.expect_cells();
  if (loader.check()) loader.load(options);
}

void skip_experts(const Checkpoint& checkpoint, const ExpertLoadRequest& request,
                  LoadLedger& ledger) {
  GroupLoader(checkpoint, request, ledger).skip();
}

}  // namespace fusedmoe
