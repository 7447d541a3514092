#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

#include "fusedmoe/error.h"
#include "weights/packer.h"

namespace fusedmoe {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

ExpertWeights::ExpertWeights(std::int64_t num_local_experts, std::size_t slot_bytes)
    : slot_bytes_(slot_bytes), num_local_experts_(num_local_experts) {
  if (num_bytes() == 0) return;
  // Whole huge pages: fewer address translations while the weights stream, where the system agrees.
  mapped_bytes_ = (num_bytes() + kHugePage - 1) / kHugePage * kHugePage;
  void* memory =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("[weights] could not get {} bytes for {} experts of {} bytes",
                            num_bytes(), num_local_experts, slot_bytes));
  }
  madvise(memory, mapped_bytes_, MADV_HUGEPAGE);  // a refusal only costs speed
  data_ = static_cast<std::byte*>(memory);
}

ExpertWeights::~ExpertWeights() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

ExpertWeights::ExpertWeights(ExpertWeights&& other) noexcept { *this = std::move(other); }

ExpertWeights& ExpertWeights::operator=(ExpertWeights&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(slot_bytes_, other.slot_bytes_);
  std::swap(num_local_experts_, other.num_local_experts_);
  return *this;
}

}  // namespace fusedmoe
