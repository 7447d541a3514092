// Checkpoint files: what tensors are in a folder, and views of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusedmoe/tensor.h"

namespace fusedmoe {

/// One tensor of a checkpoint, as its header describes it.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  int file = 0;              ///< index into Checkpoint::files()
  std::uint64_t offset = 0;  ///< of the first byte, from the start of the file
  std::uint64_t num_bytes = 0;
};

/// A folder with config.json and *.safetensors, or one .safetensors file, mapped into memory.
///
/// Opening reads and checks headers only; tensor bytes are read when somebody touches a view.
/// Every header is treated as hostile input (docs/checkpoints.md lists the checks).
/// Movable, not copyable; const members may be called from any thread.
class Checkpoint {
 public:
  /// @throws Error(kNotFound) when the path, its config or a shard is missing;
  ///         Error(kCorruptData) naming file, tensor and offence when a file is malformed.
  static Checkpoint open(const std::filesystem::path& path);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::filesystem::path& path() const noexcept;
  /// File names, relative to the folder, in sorted order.
  std::span<const std::string> files() const noexcept;
  /// All tensors, sorted by name.
  std::span<const TensorInfo> tensors() const noexcept;
  /// nullptr when there is no such tensor.
  const TensorInfo* find(std::string_view name) const noexcept;
  /// A view into the mapping, valid while this object lives. Alignment is that of a byte.
  TensorView view(const TensorInfo& info) const;
  /// The text of config.json; empty when the checkpoint is a single file without one.
  const std::string& config_json() const noexcept;
  /// The text of a side file of the folder (quantize_config.json, ...), empty when absent.
  std::string side_file(std::string_view name) const;
  /// `__metadata__` of a file, as (key, value).
  std::span<const std::pair<std::string, std::string>> metadata(int file) const;
  /// Things worth telling that are not errors: a wrong total_size, tensors absent from the index.
  std::span<const std::string> warnings() const noexcept;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A tensor to be written, with its name.
struct NamedTensor {
  std::string name;
  TensorView tensor;  ///< contiguous
};

/// Writes a safetensors file under a temporary name in the same folder and renames it, so that no
/// half-written file is ever left under `path`.
/// @throws Error(kDevice) with the system's reason (full disk, no permission); the temporary file
///         is removed.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       std::span<const std::pair<std::string, std::string>> metadata = {});

/// Writes text under a temporary name and renames it. Same errors as `write_safetensors`.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace fusedmoe
