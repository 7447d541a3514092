#include "fusedmoe/workspace.h"

#include <fmt/format.h>

#include <cstdint>
#include <new>

#include "fusedmoe/error.h"

namespace fusedmoe {

Workspace::Workspace(std::size_t num_bytes) : owns_(true) {
  void* memory = ::operator new (num_bytes, std::align_val_t{kAlignment}, std::nothrow);
  if (memory == nullptr) {
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("[base] workspace: could not allocate {} bytes", num_bytes));
  }
  memory_ = {static_cast<std::byte*>(memory), num_bytes};
}

Workspace::Workspace(std::span<std::byte> memory) : memory_(memory) {
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[base] workspace: expected memory aligned to {} bytes, got {}",
                            kAlignment, fmt::ptr(memory.data())));
  }
}

Workspace::~Workspace() {
  if (owns_) ::operator delete (memory_.data(), std::align_val_t{kAlignment});
}

Workspace::Use::Use(Workspace& workspace) : workspace_(workspace) {
  if (workspace_.in_use_.exchange(true, std::memory_order_acquire)) {
    throw Error(ErrorCode::kInvalidArgument,
                "[layer] workspace: another forward is using it; two forwards at once need two "
                "workspaces");
  }
}

Workspace::Use::~Use() { workspace_.in_use_.store(false, std::memory_order_release); }

}  // namespace fusedmoe
