// The shard plan as arithmetic: for every layout on disk and every grid of ranks, each element of
// each slice is the element of the whole model that it must be, and all ranks together have all.
#include "weights/shard_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <tuple>

#include "checkpoint/handmade_file.h"
#include "reference/layer_data.h"
#include "weights/disk_layout.h"

namespace fusedmoe::test {
namespace {

using testing::expect_error;

const QuantAnnouncement kPlain;

ExpertLoadRequest request_for(const DiskLayout& layout, const ExpertSizes& sizes,
                              const std::vector<ExpertTensorPattern>& patterns,
                              const ParallelLayout& parallel) {
  ExpertLoadRequest request;
  request.group = "routed";
  request.tensors = &patterns;
  request.quant = &kPlain;
  request.num_experts = sizes.num_experts;
  request.hidden_size = sizes.hidden_size;
  request.intermediate_size = sizes.intermediate_size;
  request.is_gated = layout.is_gated;
  request.has_bias = sizes.has_bias;
  request.parallel = parallel;
  request.weight_dtype = DType::kF32;
  return request;
}

// The files of a model: one for all ranks, or one for each tensor-parallel rank when presharded.
class Files {
 public:
  Files(const DiskLayout& layout, const ExpertSizes& sizes, const ParallelLayout& parallel) {
    const std::int64_t part = sizes.intermediate_size / parallel.tp_size;
    const IntermediateRange range = parallel.presharded
                                        ? IntermediateRange{parallel.tp_rank * part, part}
                                        : IntermediateRange{0, sizes.intermediate_size};
    for (StoredTensor& tensor : store(layout, sizes, range)) {
      const std::string name = tensor.name;
      tensors_.emplace(name, std::move(tensor));
    }
  }
  Shape shape(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? Shape() : found->second.shape;
  }
  const StoredTensor& at(const std::string& name) const { return tensors_.at(name); }
  std::size_t size() const { return tensors_.size(); }

 private:
  std::map<std::string, StoredTensor> tensors_;
};

// (physical slot, role, shard) -> times that each element of the whole was handed out.
using Coverage = std::map<std::tuple<std::int64_t, ParamRole, ExpertShard>, std::vector<int>>;

// Checks every element of one rank's plan and counts it.
void check_rank(const DiskLayout& layout, const ExpertSizes& sizes, const ParallelLayout& parallel,
                std::int64_t first_slot, Coverage& coverage) {
  const auto patterns = patterns_of(layout, sizes.has_bias);
  const Files files(layout, sizes, parallel);
  const ShardPlan plan =
      make_shard_plan(request_for(layout, sizes, patterns, parallel),
                      [&](const std::string& name) { return files.shape(name); });
  ASSERT_EQ(plan.tensors.size(), files.size());
  for (const PlannedTensor& tensor : plan.tensors) {
    ASSERT_EQ(tensor.shape, files.shape(tensor.name)) << tensor.name;
  }
  const std::int64_t h = sizes.hidden_size;
  const std::int64_t part = sizes.intermediate_size / parallel.tp_size;
  const std::int64_t offset = part * parallel.tp_rank;
  ASSERT_EQ(plan.local_intermediate, part);
  for (const ShardSlice& s : plan.slices) {
    const bool is_down = s.shard == ExpertShard::kW2;
    const bool is_bias = s.role == ParamRole::kBias;
    ASSERT_EQ(s.rows, is_down ? h : part) << s.to_string();
    ASSERT_EQ(s.cols, is_bias ? 1 : is_down ? part : h) << s.to_string();
    ASSERT_EQ(plan.local_to_logical.at(static_cast<std::size_t>(s.local_expert)), s.logical_expert);
    const StoredTensor& tensor = files.at(s.tensor);
    ASSERT_EQ(s.tensor_shape, tensor.shape) << s.to_string();
    const std::int64_t whole_cols = is_bias ? 1 : is_down ? sizes.intermediate_size : h;
    auto& counts = coverage[{first_slot + s.local_expert, s.role, s.shard}];
    counts.resize(static_cast<std::size_t>((is_down ? h : sizes.intermediate_size) * whole_cols));
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t c = 0; c < s.cols; ++c) {
        std::int64_t row = s.first_row + r * s.row_step;
        std::int64_t col = s.first_col + c;
        if (s.is_transposed) std::swap(row, col);
        ASSERT_TRUE(row >= 0 && row < s.tensor_rows && col >= 0 && col < s.tensor_cols);
        const std::int64_t index = (s.stacked_index * s.tensor_rows + row) * s.tensor_cols + col;
        const std::int64_t whole_row = r + (is_down ? 0 : offset);
        const std::int64_t whole_col = c + (is_down && !is_bias ? offset : 0);
        const float expected =
            is_bias ? bias_number(sizes, s.logical_expert, s.shard, whole_row)
                    : weight_number(sizes, s.logical_expert, s.shard, whole_row, whole_col);
        ASSERT_EQ(tensor.numbers.at(static_cast<std::size_t>(index)), expected) << s.to_string();
        ++counts[static_cast<std::size_t>(whole_row * whole_cols + whole_col)];
      }
    }
  }
}

// Some experts twice, in any order; ranks of any size.
void replicate(ParallelLayout& parallel, std::int64_t num_experts, Random& random) {
  std::vector<std::int32_t>& slots = parallel.physical_to_logical;
  slots.resize(static_cast<std::size_t>(num_experts));
  std::iota(slots.begin(), slots.end(), 0);
  for (std::int64_t extra = 1 + random.below(3); extra > 0; --extra) {
    slots.push_back(static_cast<std::int32_t>(random.below(num_experts)));
  }
  for (std::size_t i = slots.size() - 1; i > 0; --i) {
    std::swap(slots[i], slots[static_cast<std::size_t>(random.below(static_cast<int>(i) + 1))]);
  }
  std::vector<std::int32_t>& counts = parallel.slots_per_rank;
  counts.assign(static_cast<std::size_t>(parallel.ep_size), 0);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    ++counts[static_cast<std::size_t>(random.below(parallel.ep_size))];
  }
}

// All ranks of a grid; the shards must add up to the whole.
void check_grid(const DiskLayout& layout, const ExpertSizes& sizes, ParallelLayout parallel) {
  SCOPED_TRACE(fmt::format("E {} H {} I {} bias {} tp {} ep {} replicas {} presharded {}",
                           sizes.num_experts, sizes.hidden_size, sizes.intermediate_size,
                           sizes.has_bias, parallel.tp_size, parallel.ep_size,
                           parallel.physical_to_logical.size(), parallel.presharded));
  Coverage coverage;
  std::int64_t slot = 0;
  for (parallel.ep_rank = 0; parallel.ep_rank < parallel.ep_size; ++parallel.ep_rank) {
    for (parallel.tp_rank = 0; parallel.tp_rank < parallel.tp_size; ++parallel.tp_rank) {
      check_rank(layout, sizes, parallel, slot, coverage);
      if (::testing::Test::HasFatalFailure()) return;
    }
    parallel.tp_rank = 0;
    slot += std::ssize(local_to_logical(parallel, sizes.num_experts));
  }
  const std::int64_t num_slots = parallel.physical_to_logical.empty()
                                     ? sizes.num_experts
                                     : std::ssize(parallel.physical_to_logical);
  ASSERT_EQ(slot, num_slots);
  ASSERT_EQ(std::ssize(coverage), num_slots * (layout.is_gated ? 3 : 2) * (sizes.has_bias ? 2 : 1));
  for (const auto& [cell, counts] : coverage) {
    // The down bias is no matrix to cut: every tensor-parallel rank has all of it.
    const bool is_whole_everywhere =
        std::get<1>(cell) == ParamRole::kBias && std::get<2>(cell) == ExpertShard::kW2;
    for (const int count : counts) ASSERT_EQ(count, is_whole_everywhere ? parallel.tp_size : 1);
  }
}

class ShardPlanOfLayout : public ::testing::TestWithParam<DiskLayout> {};

TEST_P(ShardPlanOfLayout, shards_add_up_to_the_whole) {
  Random random(11);
  for (int round = 0; round < 12; ++round) {
    const int tp = 1 + round % 4;
    for (int ep = 1; ep <= 3; ++ep) {
      for (const bool presharded : {false, true}) {
        ExpertSizes sizes{ep + random.below(5), 1 + random.below(23), 0, random.below(2) == 1};
        sizes.intermediate_size = tp * (1 + random.below(7));
        // A square pair of tensors would not say which way round it is.
        if (GetParam().orientation_from_shape) {
          sizes.hidden_size = 2 * sizes.intermediate_size + 1 + random.below(9);
        }
        ParallelLayout parallel;
        parallel.tp_size = tp;
        parallel.ep_size = ep;
        parallel.presharded = presharded;
        check_grid(GetParam(), sizes, parallel);
        replicate(parallel, sizes.num_experts, random);
        check_grid(GetParam(), sizes, parallel);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, ShardPlanOfLayout, ::testing::ValuesIn(disk_layouts()),
                         testing::CaseName{});

TEST(ShardPlan, prints_where_every_slice_comes_from) {
  const DiskLayout& layout = disk_layout("stacked_interleaved_transposed");
  const ExpertSizes sizes{2, 5, 6, false};
  const auto patterns = patterns_of(layout, false);
  ParallelLayout parallel;
  parallel.tp_size = 2;
  parallel.tp_rank = 1;
  parallel.ep_size = 2;
  parallel.ep_rank = 1;
  const ShardPlan plan = make_shard_plan(request_for(layout, sizes, patterns, parallel),
                                         [](const std::string&) { return Shape(); });
  EXPECT_EQ(plan.to_string(),
            "block.experts.gate_up_proj.weight [2, 5, 12][1] -> expert 0 w1 weight [3, 5] from row "
            "6 step 2 col 0 transposed\n"
            "block.experts.gate_up_proj.weight [2, 5, 12][1] -> expert 0 w3 weight [3, 5] from row "
            "7 step 2 col 0 transposed\n"
            "block.experts.down_proj.weight [2, 6, 5][1] -> expert 0 w2 weight [5, 3] from row 0 "
            "step 1 col 3 transposed\n");
}

TEST(ShardPlan, refuses_an_uneven_cut) {
  const DiskLayout& layout = disk_layout("per_expert");
  const auto patterns = patterns_of(layout, false);
  ParallelLayout parallel;
  parallel.tp_size = 4;
  expect_error(ErrorCode::kInvalidArgument, {"intermediate_size 10", "tp_size 4"}, [&] {
    make_shard_plan(request_for(layout, {2, 8, 10, false}, patterns, parallel),
                    [](const std::string&) { return Shape(); });
  });
}

// B06: the offset of a shard is counted in the numbers of the file.
TEST(ShardPlanBugLog, B06_offsets_are_those_of_the_file) {
  const DiskLayout& layout = disk_layout("per_expert");
  const auto patterns = patterns_of(layout, false);
  ParallelLayout parallel;
  parallel.tp_size = 4;
  parallel.tp_rank = 2;
  const ShardPlan plan =
      make_shard_plan(request_for(layout, {1, 3, 384, false}, patterns, parallel),
                      [](const std::string&) { return Shape(); });
  ASSERT_EQ(plan.slices.size(), 3U);
  for (const ShardSlice& slice : plan.slices) {
    const bool is_down = slice.shard == ExpertShard::kW2;
    EXPECT_EQ(is_down ? slice.first_col : slice.first_row, 192);
    EXPECT_EQ(is_down ? slice.cols : slice.rows, 96);
  }
}

// B28: a rank's experts keep their names.
TEST(ShardPlanBugLog, B28_every_rank_reads_its_own_experts) {
  const DiskLayout& layout = disk_layout("per_expert");
  const auto patterns = patterns_of(layout, false);
  for (int rank = 0; rank < 3; ++rank) {
    ParallelLayout parallel;
    parallel.ep_size = 3;
    parallel.ep_rank = rank;
    const ShardPlan plan =
        make_shard_plan(request_for(layout, {6, 4, 2, false}, patterns, parallel),
                        [](const std::string&) { return Shape(); });
    EXPECT_EQ(plan.slices.front().local_expert, 0);
    EXPECT_EQ(plan.slices.front().tensor,
              fmt::format("block.experts.{}.gate_proj.weight", 2 * rank));
  }
}

}  // namespace
}  // namespace fusedmoe::test
