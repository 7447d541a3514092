// Where loaded experts go: one relocatable slot of packed bytes for each local expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fusedmoe/layer.h"

namespace fusedmoe {

/// Turns one expert's matrices into the bytes that the kernels of one arithmetic read. The experts
/// stage implements one per arithmetic; the loader only calls it.
class Packer {
 public:
  virtual ~Packer() = default;
  /// Bytes of one expert's slot, a multiple of 64.
  virtual std::size_t slot_bytes() const noexcept = 0;
  /// Writes every byte of `slot`, padding included (zeros). `tensors` have been checked.
  virtual void pack(const ExpertTensors& tensors, std::byte* slot) const = 0;
};

/// The packed bytes of the local experts, on huge pages where the system gives them.
class ExpertWeights {
 public:
  ExpertWeights() = default;
  /// @throws Error(kOutOfMemory) naming the bytes.
  ExpertWeights(std::int64_t num_local_experts, std::size_t slot_bytes);
  ~ExpertWeights();
  ExpertWeights(ExpertWeights&&) noexcept;
  ExpertWeights& operator=(ExpertWeights&&) noexcept;

  std::int64_t num_local_experts() const noexcept { return num_local_experts_; }
  std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  std::size_t num_bytes() const noexcept {
    return slot_bytes_ * static_cast<std::size_t>(num_local_experts_);
  }
  std::byte* slot(std::int64_t local_expert) noexcept {
    return data_ + static_cast<std::size_t>(local_expert) * slot_bytes_;
  }
  const std::byte* slot(std::int64_t local_expert) const noexcept {
    return data_ + static_cast<std::size_t>(local_expert) * slot_bytes_;
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::size_t slot_bytes_ = 0;
  std::int64_t num_local_experts_ = 0;
};

}  // namespace fusedmoe
