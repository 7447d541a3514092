// Scratch memory of a forward, owned by the caller.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

namespace fusedmoe {

/// One block of scratch memory. `plan()` says how many bytes a layer needs; one workspace serves
/// all layers that run one after the other, two forwards at once need two. Content is garbage
/// between calls.
class Workspace {
 public:
  static constexpr std::size_t kAlignment = 64;

  Workspace() = default;
  /// Allocates. @throws Error(kOutOfMemory) naming the bytes.
  explicit Workspace(std::size_t num_bytes);
  /// Uses the caller's memory, which must outlive this object. @throws Error(kInvalidArgument) when
  /// it is not aligned to kAlignment.
  explicit Workspace(std::span<std::byte> memory);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  std::span<std::byte> memory() const noexcept { return memory_; }
  std::size_t num_bytes() const noexcept { return memory_.size(); }

  /// Marks the workspace as in use for the life of the returned guard.
  class Use {
   public:
    /// @throws Error(kInvalidArgument) when another forward is using it.
    explicit Use(Workspace& workspace);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Workspace& workspace_;
  };

 private:
  std::span<std::byte> memory_;
  bool owns_ = false;
  std::atomic<bool> in_use_{false};
};

}  // namespace fusedmoe
