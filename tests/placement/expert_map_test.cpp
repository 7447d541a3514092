// Which rank computes which id.
#include "placement/expert_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/handmade_file.h"

namespace fusedmoe {
namespace {

using ::testing::ElementsAre;

TEST(ExpertMap, ids_of_other_ranks_have_no_local_expert) {
  ParallelLayout layout;
  layout.ep_size = 2;
  EXPECT_THAT(local_of_logical(layout, 5), ElementsAre(0, 1, 2, -1, -1));
  layout.ep_rank = 1;
  EXPECT_THAT(local_of_logical(layout, 5), ElementsAre(-1, -1, -1, 0, 1));
}

TEST(ExpertMap, fused_shared_experts_follow_the_routed_ones_of_the_first_rank) {
  ParallelLayout layout;
  layout.ep_size = 3;
  EXPECT_THAT(local_of_logical(layout, 4, 2), ElementsAre(0, 1, -1, -1, 2, 3));
  layout.ep_rank = 2;
  EXPECT_THAT(local_of_logical(layout, 4, 2), ElementsAre(-1, -1, -1, 0, -1, -1));
}

// An expert that lives in several slots must add to a token once.
TEST(ExpertMap, exactly_one_rank_computes_an_id) {
  ParallelLayout layout;
  layout.ep_size = 3;
  layout.physical_to_logical = {2, 0, 1, 2, 0, 2, 1};
  layout.slots_per_rank = {1, 4, 2};
  std::vector<int> owners(3, 0);
  for (layout.ep_rank = 0; layout.ep_rank < 3; ++layout.ep_rank) {
    const std::vector<std::int32_t> map = local_of_logical(layout, 3);
    const std::vector<std::int32_t> local = local_to_logical(layout, 3);
    ASSERT_EQ(map.size(), owners.size());
    for (std::size_t id = 0; id < map.size(); ++id) {
      if (map[id] < 0) continue;
      ++owners[id];
      EXPECT_EQ(local.at(static_cast<std::size_t>(map[id])), static_cast<std::int32_t>(id));
    }
  }
  EXPECT_THAT(owners, ElementsAre(1, 1, 1));
}

TEST(ExpertMap, an_unsound_layout_is_refused) {
  ParallelLayout layout;
  layout.ep_size = 9;
  testing::expect_error(ErrorCode::kInvalidArgument, {"ep_size 9"},
                        [&] { local_of_logical(layout, 4); });
}

}  // namespace
}  // namespace fusedmoe
