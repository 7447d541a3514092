// A file opened for reading: small reads by descriptor, the bulk through a read-only mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace fusedmoe {

/// Owns a descriptor and a mapping of a regular file. Movable, not copyable.
///
/// A file that another process truncates while it is mapped makes the system raise SIGBUS on a read
/// of the lost pages; no library can turn that into an exception. `check_size` narrows the window:
/// it asks the open descriptor, so a file replaced by rename is not confused with this one.
class FileMap {
 public:
  /// @throws Error(kNotFound) when there is no such file (a broken link is named as one),
  ///         Error(kDevice) when it cannot be read or mapped, Error(kInvalidArgument) when it is
  ///         not a regular file.
  explicit FileMap(const std::filesystem::path& path);
  ~FileMap();
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;

  /// Bytes of the file when it was opened.
  std::uint64_t size() const noexcept { return size_; }
  /// The mapping; empty for an empty file. Nothing is read until a byte is touched.
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  /// Fills `out` from `offset` on without touching the mapping.
  /// @throws Error(kCorruptData) when the file ends before, Error(kDevice) when the system refuses.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  /// @throws Error(kCorruptData) when the file has another size now than when it was opened.
  void check_size() const;

 private:
  void close() noexcept;

  std::string name_;  // for messages
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  const std::byte* data_ = nullptr;
};

/// The whole of a small text file.
/// @throws the errors of FileMap, and Error(kCorruptData) when it is larger than 100 MB.
std::string read_text_file(const std::filesystem::path& path);

}  // namespace fusedmoe
