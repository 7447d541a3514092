// Which rank holds which expert.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "checkpoint/handmade_file.h"
#include "fusedmoe/parallel.h"

namespace fusedmoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Experts = std::vector<std::int32_t>;

ParallelLayout ep_layout(int size, int rank) {
  ParallelLayout layout;
  layout.ep_size = size;
  layout.ep_rank = rank;
  return layout;
}

TEST(ParallelLayout, every_expert_has_one_rank_and_ranks_differ_by_one_expert_at_most) {
  for (int num_experts = 1; num_experts <= 17; ++num_experts) {
    for (int size = 1; size <= num_experts; ++size) {
      Experts all;
      for (int rank = 0; rank < size; ++rank) {
        const Experts local = local_to_logical(ep_layout(size, rank), num_experts);
        EXPECT_EQ(std::ssize(local), num_experts / size + (rank < num_experts % size ? 1 : 0));
        all.insert(all.end(), local.begin(), local.end());
      }
      Experts expected(static_cast<std::size_t>(num_experts));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected) << num_experts << " experts, " << size << " ranks";
    }
  }
}

TEST(ParallelLayout, tensor_parallel_ranks_hold_the_same_experts) {
  ParallelLayout layout = ep_layout(2, 1);
  layout.tp_size = 4;
  for (layout.tp_rank = 0; layout.tp_rank < 4; ++layout.tp_rank) {
    EXPECT_THAT(local_to_logical(layout, 5), ElementsAre(3, 4));
  }
}

TEST(ParallelLayout, replicas_and_uneven_ranks) {
  ParallelLayout layout = ep_layout(3, 0);
  layout.physical_to_logical = {2, 0, 1, 2, 0, 2};
  EXPECT_THAT(local_to_logical(layout, 3), ElementsAre(2, 0));
  layout.slots_per_rank = {1, 4, 1};
  EXPECT_THAT(local_to_logical(layout, 3), ElementsAre(2));
  layout.ep_rank = 1;
  EXPECT_THAT(local_to_logical(layout, 3), ElementsAre(0, 1, 2, 0));
  layout.ep_rank = 2;
  EXPECT_THAT(local_to_logical(layout, 3), ElementsAre(2));
  EXPECT_THAT(validate(layout, 3), ElementsAre());
}

TEST(ParallelLayout, a_rank_may_hold_nothing) {
  ParallelLayout layout = ep_layout(2, 1);
  layout.slots_per_rank = {3, 0};
  EXPECT_THAT(validate(layout, 3), ElementsAre());
  EXPECT_THAT(local_to_logical(layout, 3), ElementsAre());
}

// A layout that is wrong in one way, of 4 experts, and what must be said of it.
struct Unsound {
  const char* name;
  void (*spoil)(ParallelLayout& layout);
  std::vector<std::string> facts;
};

class UnsoundLayout : public ::testing::TestWithParam<Unsound> {};
TEST_P(UnsoundLayout, is_refused_with_its_facts) {
  ParallelLayout layout = ep_layout(2, 0);
  GetParam().spoil(layout);
  const std::vector<std::string> problems = validate(layout, 4);
  ASSERT_FALSE(problems.empty());
  for (const std::string& fact : GetParam().facts) {
    EXPECT_THAT(problems, ::testing::Contains(HasSubstr(fact)));
  }
  testing::expect_error(ErrorCode::kInvalidArgument, GetParam().facts,
                        [&] { local_to_logical(layout, 4); });
}
INSTANTIATE_TEST_SUITE_P(
    All, UnsoundLayout,
    ::testing::Values(
        Unsound{"tp_size", [](auto& l) { l.tp_size = 0; }, {"tp_size", "got 0"}},
        Unsound{"tp_rank", [](auto& l) { l.tp_rank = 1; }, {"tp_rank", "[0, 1)", "got 1"}},
        Unsound{"ep_rank_negative", [](auto& l) { l.ep_rank = -1; }, {"ep_rank", "got -1"}},
        Unsound{"ep_rank_beyond", [](auto& l) { l.ep_rank = 2; }, {"ep_rank", "[0, 2)", "got 2"}},
        Unsound{"more_ranks_than_experts", [](auto& l) { l.ep_size = 5; }, {"ep_size 5", "4"}},
        Unsound{"expert_without_slot",
                [](auto& l) {
                  l.physical_to_logical = {0, 1, 3, 3};
                },
                {"expert 2"}},
        Unsound{"slot_beyond_the_experts",
                [](auto& l) {
                  l.physical_to_logical = {0, 1, 2, 3, 4};
                },
                {"slot 4", "[0, 4)", "got 4"}},
        Unsound{"slot_negative",
                [](auto& l) {
                  l.physical_to_logical = {0, -1, 2, 3};
                },
                {"slot 1", "got -1"}},
        Unsound{"ranks_of_slots",
                [](auto& l) {
                  l.slots_per_rank = {1, 2, 1};
                },
                {"slots_per_rank", "2 counts", "got 3"}},
        Unsound{"sum_of_slots",
                [](auto& l) {
                  l.slots_per_rank = {1, 2};
                },
                {"slots_per_rank", "sum to 4", "sum to 3"}},
        Unsound{"negative_slots",
                [](auto& l) {
                  l.slots_per_rank = {5, -1};
                },
                {"slots_per_rank"}}),
    testing::CaseName{});

}  // namespace
}  // namespace fusedmoe
