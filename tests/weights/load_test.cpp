// The strict loader with plain files: what it hands out, what it counts, and what it refuses.
#include "weights/load.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/half.h"
#include "reference/planned_layer.h"
#include "weights/loaded_group.h"

namespace fusedmoe::test {
namespace {

using testing::expect_error;

const ExpertSizes kSizes{4, 12, 10, true};

ParallelLayout grid(int tp_size, int tp_rank, int ep_size = 1, int ep_rank = 0) {
  ParallelLayout parallel;
  parallel.tp_size = tp_size;
  parallel.tp_rank = tp_rank;
  parallel.ep_size = ep_size;
  parallel.ep_rank = ep_rank;
  return parallel;
}

void expect_numbers(const ExpertGroup& group, const LoadedGroup& loaded) {
  const auto local = local_to_logical(group.parallel, group.sizes.num_experts);
  ASSERT_EQ(loaded.experts.size(), local.size());
  for (std::int64_t e = 0; e < std::ssize(local); ++e) {
    EXPECT_EQ(loaded.experts.at(e), expected_expert(group, e)) << "local expert " << e;
  }
  const std::int64_t kinds = (group.is_gated ? 3 : 2) * (group.sizes.has_bias ? 2 : 1);
  EXPECT_EQ(loaded.report.cells, std::ssize(local) * kinds);
}

class LoadOfLayout : public ::testing::TestWithParam<DiskLayout> {};

TEST_P(LoadOfLayout, hands_out_the_right_numbers_on_every_rank) {
  for (const bool presharded : {false, true}) {
    for (const int tp : {1, 2, 5}) {
      for (int rank = 0; rank < tp * 3; ++rank) {
        ParallelLayout parallel = grid(tp, rank % tp, 3, rank / tp);
        parallel.presharded = presharded;
        parallel.physical_to_logical = {3, 0, 1, 2, 0};
        parallel.slots_per_rank = {1, 3, 1};
        const ExpertGroup group = plain_group(GetParam(), kSizes, parallel);
        SCOPED_TRACE(fmt::format("tp {} rank {} presharded {}", tp, rank, presharded));
        expect_numbers(group, load_group(group));
      }
    }
  }
}

TEST_P(LoadOfLayout, names_each_tensor_that_is_missing) {
  const ExpertGroup sound = plain_group(GetParam(), kSizes);
  for (const MadeTensor& tensor : sound.tensors) {
    ExpertGroup group = sound;
    group.remove(tensor.name);
    LoadReport report;
    LoadHooks hooks;
    hooks.options.report = &report;
    expect_error(ErrorCode::kCorruptData, {"missing", tensor.name},
                 [&] { load_group(group, hooks); });
    ASSERT_EQ(report.missing.size(), 1U) << tensor.name;
    EXPECT_THAT(report.missing.front(), ::testing::HasSubstr(tensor.name));
  }
}

TEST_P(LoadOfLayout, refuses_each_tensor_given_twice) {
  const ExpertGroup sound = plain_group(GetParam(), kSizes);
  for (std::size_t i = 0; i < sound.tensors.size(); ++i) {
    ExpertGroup group = sound;
    group.tensors.push_back(sound.tensors[i]);
    // With one file for each tensor the copy comes from another file than the original.
    group.num_files = static_cast<int>(group.tensors.size());
    expect_error(ErrorCode::kCorruptData, {sound.tensors[i].name}, [&] { load_group(group); });
  }
}

TEST_P(LoadOfLayout, refuses_each_tensor_of_another_shape) {
  const ExpertGroup sound = plain_group(GetParam(), kSizes);
  for (std::size_t i = 0; i < sound.tensors.size(); ++i) {
    for (int axis = 0; axis < sound.tensors[i].shape.rank(); ++axis) {
      for (const std::int64_t size : {std::int64_t{1}, sound.tensors[i].shape[axis] + 1}) {
        ExpertGroup group = sound;
        MadeTensor& tensor = group.tensors[i];
        std::vector<std::int64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
        dims[static_cast<std::size_t>(axis)] = size;
        tensor.shape = Shape(dims);
        tensor.bytes.assign(static_cast<std::size_t>(tensor.shape.num_elements()) * 4, {});
        expect_error(
            ErrorCode::kCorruptData,
            {tensor.name,
             "expected " + (GetParam().orientation_from_shape ? std::string()
                                                              : sound.tensors[i].shape.to_string()),
             "got " + tensor.shape.to_string()},
            [&] { load_group(group); });
      }
    }
  }
}

TEST_P(LoadOfLayout, refuses_each_tensor_of_another_type) {
  const ExpertGroup sound = plain_group(GetParam(), kSizes);
  for (const DType dtype : {DType::kF8E4M3, DType::kU8, DType::kI8, DType::kI32, DType::kF64}) {
    for (std::size_t i = 0; i < sound.tensors.size(); ++i) {
      ExpertGroup group = sound;
      MadeTensor& tensor = group.tensors[i];
      tensor.dtype = dtype;
      const std::int64_t bits = tensor.shape.num_elements() * dtype_bits(dtype);
      tensor.bytes.assign(static_cast<std::size_t>(bits) / 8, {});
      expect_error(ErrorCode::kCorruptData,
                   {tensor.name, "expected", "BF16", std::string(dtype_name(dtype))},
                   [&] { load_group(group); });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LoadOfLayout, ::testing::ValuesIn(disk_layouts()),
                         testing::CaseName{});

TEST(Load, order_of_tensors_files_and_threads_change_nothing) {
  const ExpertGroup sound = plain_group(disk_layout("per_expert"), {9, 12, 10, true});
  const LoadedGroup expected = load_group(sound);
  expect_numbers(sound, expected);
  Random random(5);
  for (const int num_threads : {1, 2, 3, 7}) {
    ExpertGroup group = sound;
    for (std::size_t i = group.tensors.size() - 1; i > 0; --i) {
      std::swap(group.tensors[i],
                group.tensors[static_cast<std::size_t>(random.below(std::int64_t(i) + 1))]);
    }
    group.num_files = num_threads;
    LoadHooks hooks;
    hooks.options.executor = &shared_pool(num_threads);
    const LoadedGroup loaded = load_group(group, hooks);
    EXPECT_EQ(loaded.experts, expected.experts) << num_threads << " threads";
    EXPECT_EQ(loaded.report.cells, expected.report.cells);
    EXPECT_EQ(loaded.report.bytes_read, expected.report.bytes_read);
  }
}

TEST(Load, elements_keep_their_type) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    ExpertGroup group = plain_group(disk_layout("stacked_interleaved"), {2, 3, 4, false});
    for (MadeTensor& tensor : group.tensors) {
      std::vector<float> numbers(tensor.bytes.size() / 4);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = load_as_f32(tensor.bytes.data(), DType::kF32, std::int64_t(i));
      }
      tensor = made_floats(tensor.name, tensor.shape, numbers, dtype);
    }
    expect_numbers(group, load_group(group));  // the numbers are small enough for either type
  }
}

TEST(Load, progress_only_grows_and_ends_at_the_whole) {
  for (const int num_threads : {1, 4}) {
    std::mutex mutex;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> calls;
    LoadHooks hooks;
    hooks.options.executor = &shared_pool(num_threads);
    hooks.options.progress = [&](std::uint64_t done, std::uint64_t all) {
      const std::lock_guard lock(mutex);
      calls.emplace_back(done, all);
    };
    const ExpertGroup group = plain_group(disk_layout("per_expert"), {32, 12, 10, false});
    const LoadedGroup loaded = load_group(group, hooks);
    ASSERT_FALSE(calls.empty());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_LE(calls[i].first, calls[i].second);
      EXPECT_EQ(calls[i].second, loaded.report.bytes_read);
      EXPECT_GE(calls[i].first, calls[i == 0 ? 0 : i - 1].first) << i;
    }
    EXPECT_EQ(calls.back().first, loaded.report.bytes_read);
  }
}

TEST(Load, counts_the_bytes_that_a_rank_reads) {
  const ExpertSizes sizes{4, 12, 10, false};
  const ExpertGroup group = plain_group(disk_layout("stacked_joined"), sizes, grid(2, 1, 2, 0));
  EXPECT_EQ(load_group(group).report.bytes_read, 2U * 3U * 12U * 5U * 4U);
}

TEST(Load, counts_tensors_of_other_ranks) {
  for (const auto& [layout, skipped] :
       {std::pair{"per_expert", 3 * 3}, std::pair{"stacked_joined", 0}}) {
    const ExpertGroup group =
        plain_group(disk_layout(layout), {5, 4, 6, false}, grid(1, 0, 3, 1));  // experts 2 and 3
    const LoadedGroup loaded = load_group(group);
    EXPECT_EQ(loaded.report.skipped_other_rank, skipped) << layout;
    EXPECT_EQ(loaded.experts.size(), 2U);
  }
}

TEST(Load, a_tensor_missing_for_another_rank_is_missing) {
  ExpertGroup group = plain_group(disk_layout("per_expert"), {4, 4, 6, false}, grid(1, 0, 2, 0));
  group.remove("block.experts.3.down_proj.weight");
  expect_error(ErrorCode::kCorruptData, {"missing", "block.experts.3.down_proj.weight"},
               [&] { load_group(group); });
}

TEST(Load, nothing_is_handed_out_of_an_unsound_group) {
  ExpertGroup group = plain_group(disk_layout("per_expert"), kSizes);
  group.remove("block.experts.3.down_proj.weight");
  LoadHooks hooks;
  std::atomic<int> calls{0};
  hooks.sink = [&](std::int64_t, const ExpertTensors&) { ++calls; };
  expect_error(ErrorCode::kCorruptData, {"missing"}, [&] { load_group(group, hooks); });
  EXPECT_EQ(calls, 0);
}

TEST(Load, lists_everything_that_is_wrong_at_once) {
  ExpertGroup group = plain_group(disk_layout("per_expert"), kSizes);
  group.remove("block.experts.0.gate_proj.weight");
  group.remove("block.experts.2.down_proj.bias");
  group.tensor("block.experts.1.up_proj.weight").shape = {12, 10};
  group.tensors.push_back(made_floats("block.experts.0.unknown.weight", {1}, {1.0F}));
  expect_error(ErrorCode::kCorruptData,
               {"block.experts.0.gate_proj.weight", "block.experts.2.down_proj.bias",
                "block.experts.1.up_proj.weight", "expected [10, 12]", "got [12, 10]",
                "block.experts.0.unknown.weight"},
               [&] { load_group(group); });
}

TEST(Load, the_same_problems_are_reported_in_the_same_words) {
  ExpertGroup group = plain_group(disk_layout("per_expert"), {9, 12, 10, false});
  const auto text = [&](int num_threads) {
    LoadHooks hooks;
    hooks.options.executor = &shared_pool(num_threads);
    hooks.sink = [](std::int64_t local, const ExpertTensors&) {
      throw Error(ErrorCode::kOutOfMemory, fmt::format("no room for {}", local));
    };
    try {
      load_group(group, hooks);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      // The folder is another one each time.
      const std::string what = error.what();
      const std::size_t line = what.find('\n');
      return what.substr(line == std::string::npos ? 0 : line);
    }
    return std::string("no error");
  };
  const std::string expected = text(1);
  EXPECT_THAT(expected, ::testing::HasSubstr("no room for 8"));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(text(4), expected);
}

TEST(Load, an_exception_of_the_progress_callback_is_reported) {
  for (const int num_threads : {1, 3}) {
    const ExpertGroup group = plain_group(disk_layout("per_expert"), kSizes);
    LoadHooks hooks;
    hooks.options.executor = &shared_pool(num_threads);
    hooks.options.progress = [](std::uint64_t, std::uint64_t) {
      throw std::runtime_error("the screen is gone");
    };
    try {
      load_group(group, hooks);
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("the screen is gone"));
    }
  }
}

TEST(Load, patterns_must_name_every_projection_once) {
  const auto expect_refused = [](const ExpertGroup& group, const char* shard) {
    expect_error(ErrorCode::kInvalidArgument, {shard}, [&] { load_group(group); });
  };
  const ExpertGroup sound = plain_group(disk_layout("per_expert"), kSizes);
  const char* names[] = {"w1", "w3", "w2"};
  for (std::size_t i = 0; i < 3; ++i) {
    ExpertGroup lacking = sound;
    lacking.patterns.erase(lacking.patterns.begin() + static_cast<std::ptrdiff_t>(i));
    expect_refused(lacking, names[i]);
    ExpertGroup twice = sound;
    twice.patterns.push_back(sound.patterns[i]);
    expect_refused(twice, names[i]);
  }
}

}  // namespace
}  // namespace fusedmoe::test
