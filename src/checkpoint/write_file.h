// Output files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace fusedmoe {

/// Collects a file under a temporary name in the folder of its final one.
///
/// Life: construct -> append, any number of times -> commit. Without commit the destructor removes
/// the temporary file.
class FileWriter {
 public:
  /// @throws Error(kInvalidArgument) when `path` exists and is not a regular file, Error(kDevice)
  ///         when the folder does not take a new file.
  explicit FileWriter(const std::filesystem::path& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  /// @throws Error(kDevice) with the system's reason: a full disk, a limit on file sizes.
  void append(std::span<const std::byte> bytes);
  /// Flushes to the disk, then renames; an existing file is replaced in one step.
  /// @throws Error(kDevice).
  void commit();

 private:
  [[noreturn]] void fail(const char* action, int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  bool is_committed_ = false;
};

}  // namespace fusedmoe
