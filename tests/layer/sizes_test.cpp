// Many rows, wide offsets, strided rows: what goes wrong with sizes, not with numbers.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "layer/every_kernel.h"

namespace fusedmoe::test {
namespace {

FusedMoEConfig small_config(std::int64_t num_experts, std::int64_t top_k) {
  FusedMoEConfig config;
  config.num_experts = num_experts;
  config.hidden_size = 16;
  config.intermediate_size = 8;
  config.top_k = top_k;
  return config;
}

// Address space without memory behind it until somebody writes.
class ReservedMemory {
 public:
  explicit ReservedMemory(std::size_t num_bytes)
      : num_bytes_(num_bytes),
        data_(mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~ReservedMemory() { munmap(data_, num_bytes_); }
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;
  bool is_mapped() const { return data_ != MAP_FAILED; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::size_t num_bytes_;
  void* data_;
};

// Routed row counts around 2^15 and 2^16 that no tile divides, against the same tokens in chunks.
TEST(Sizes, B54_routed_rows_beyond_16_bits) {
  const FusedMoEConfig config = small_config(3, 2);
  const LayerData data = random_layer(config, 1);
  const BatchData all = random_batch(config, {.num_tokens = 32769, .routing = Routing::kZipf}, 2);
  std::vector<std::int64_t> order(32769);
  std::iota(order.begin(), order.end(), 0);
  every_kernel(data, 32769, [&](PlannedLayer& layer) {
    std::vector<std::byte> expected;
    for (std::size_t first = 0; first < order.size(); first += 1024) {
      const std::size_t count = std::min<std::size_t>(1024, order.size() - first);
      const auto part = layer.run(take_tokens(all, std::span(order).subspan(first, count)));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    for (const std::size_t slots : {32764U, 32768U, 32800U, 32802U, 40002U, 49150U, 65538U}) {
      const std::size_t tokens = slots / 2;
      const auto result = layer.run(take_tokens(all, std::span(order).first(tokens)));
      EXPECT_TRUE(std::equal(result.begin(), result.end(), expected.begin())) << slots << " rows";
    }
  });
}

TEST(Sizes, B54_odd_number_of_routed_rows) {
  const FusedMoEConfig config = small_config(2, 1);
  const LayerData data = random_layer(config, 3);
  const BatchData batch =
      random_batch(config, {.num_tokens = 65537, .routing = Routing::kAllToOne}, 4);
  const std::vector<std::int64_t> last{65533, 65534, 65535, 65536};
  every_kernel(data, 65537, [&](PlannedLayer& layer) {
    const auto expected = layer.run(take_tokens(batch, last));
    EXPECT_EQ(take_rows(layer.run(batch), 65537, 65533, 4), expected);
  });
}

// 64-bit offsets where the layer meets memory that it does not own: a row stride of 2^28 elements
// puts the rows of 9 tokens 4 GiB apart in all, in address space that is reserved and hardly used.
TEST(Sizes, B51_byte_offsets_beyond_32_bits) {
  const FusedMoEConfig config = small_config(3, 2);
  const LayerData data = random_layer(config, 5);
  const BatchData batch = random_batch(config, {.num_tokens = 9}, 6);
  constexpr std::int64_t kStride = std::int64_t{1} << 28;
  const ReservedMemory memory(static_cast<std::size_t>(2 * (8 * kStride + 16) * 2));
  ASSERT_TRUE(memory.is_mapped());
  std::byte* in = memory.data();
  std::byte* out = in + (8 * kStride + 16) * 2;
  for (std::int64_t t = 0; t < 9; ++t) {
    std::memcpy(in + t * kStride * 2, batch.hidden.data() + t * 32, 32);
  }
  every_kernel(data, 9, [&](PlannedLayer& layer) {
    const auto expected = layer.run(batch);
    layer.layer().forward({in, DType::kBF16, {9, 16}, kStride}, batch.topk(),
                          {out, DType::kBF16, {9, 16}, kStride}, layer.workspace());
    for (std::int64_t t = 0; t < 9; ++t) {
      EXPECT_EQ(std::memcmp(out + t * kStride * 2, expected.data() + t * 32, 32), 0) << t;
    }
  });
}

// The half rows of a [T, 2H] buffer, and every second row of a taller one.
TEST(Sizes, B55_strided_rows) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    FusedMoEConfig config = small_config(4, 2);
    config.hidden_dtype = dtype;
    config.hidden_size = 37;
    const std::size_t row = static_cast<std::size_t>(37 * dtype_bits(dtype) / 8);
    const LayerData data = random_layer(config, 7);
    const BatchData batch = random_batch(config, {.num_tokens = 19}, 8);
    GuardedBytes wide(19 * 2 * row);
    std::memset(wide.data(), 0xFF, wide.size());  // NaN between the rows
    for (std::size_t t = 0; t < 19; ++t) {
      std::memcpy(wide.data() + t * 2 * row, batch.hidden.data() + t * row, row);
    }
    every_kernel(data, 19, [&](PlannedLayer& layer) {
      const auto expected = layer.run(batch);
      GuardedBytes out(19 * 2 * row);
      std::memset(out.data(), 0x55, out.size());
      layer.layer().forward({wide.data(), dtype, {19, 37}, 74}, batch.topk(),
                            {out.data(), dtype, {19, 37}, 74}, layer.workspace());
      const std::vector<std::byte> untouched(row, std::byte{0x55});
      for (std::size_t t = 0; t < 19; ++t) {
        EXPECT_EQ(std::memcmp(out.data() + t * 2 * row, expected.data() + t * row, row), 0);
        EXPECT_EQ(std::memcmp(out.data() + (t * 2 + 1) * row, untouched.data(), t == 18 ? 0 : row),
                  0)
            << "written between the rows";
      }
    });
  }
}

TEST(Sizes, InplaceWritesOverItsInput) {
  FusedMoEConfig config = small_config(4, 2);
  const BatchData batch = random_batch(config, {.num_tokens = 50}, 9);
  config.inplace = true;
  const LayerData data = random_layer(config, 10);
  every_kernel(data, 50, [&](PlannedLayer& layer) {
    const auto expected = layer.run(batch);
    GuardedBytes both = batch.hidden;
    layer.layer().forward({both.data(), DType::kBF16, {50, 16}}, batch.topk(),
                          {both.data(), DType::kBF16, {50, 16}}, layer.workspace());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), both.data()));
  });
}

// The workspace is the same for any routing of max_num_tokens and grows with it only.
TEST(Sizes, B102_workspace_is_stated_beforehand) {
  const FusedMoEConfig config = small_config(4, 2);
  FusedMoE layer(config);
  std::size_t before = 0;
  for (const std::int64_t tokens : {1, 2, 16, 17, 1000}) {
    const std::size_t bytes = layer.plan({.max_num_tokens = tokens}).workspace_bytes;
    EXPECT_GE(bytes, before);
    before = bytes;
  }
  EXPECT_GT(before, 0U);
}

}  // namespace
}  // namespace fusedmoe::test
