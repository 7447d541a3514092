#include "checkpoint/write_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "fusedmoe/checkpoint.h"
#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

namespace fs = std::filesystem;

// Hidden, so that readers of the folder pass it by; unique among processes and threads.
fs::path temporary_name(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.parent_path() / fmt::format(".fusedmoe-{}-{}.tmp", ::getpid(), counter.fetch_add(1));
}

// Makes the rename itself durable. Some file systems refuse this for folders; the file is complete
// under its name by then, so there is nothing to report.
void flush_folder(const fs::path& folder) noexcept {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

FileWriter::FileWriter(const fs::path& path) : path_(path), temporary_(temporary_name(path)) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[checkpoint] output {}: expected a new name or a regular file, got a "
                            "folder or device; give the path of a file",
                            path.string()));
  }
  constexpr mode_t kReadWriteForAll = 0666;  // narrowed by the user's umask
  descriptor_ =
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kReadWriteForAll);
  if (descriptor_ < 0) fail("create a file in its folder", errno);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!is_committed_) ::unlink(temporary_.c_str());
}

void FileWriter::append(std::span<const std::byte> bytes) {
  constexpr std::size_t kMaxBytesPerCall = std::size_t{1} << 30;  // Linux stops just below 2 GiB
  while (!bytes.empty()) {
    const ssize_t count =
        ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxBytesPerCall));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void FileWriter::commit() {
  if (::fsync(descriptor_) != 0) fail("flush to the disk", errno);
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail("close", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename the finished file", errno);
  is_committed_ = true;
  flush_folder(path_.parent_path());
}

void FileWriter::fail(const char* action, int error) const {
  throw Error(ErrorCode::kDevice,
              fmt::format("[checkpoint] output {}: expected to {}, got: {}; nothing was left under "
                          "this name: free space or choose another folder",
                          path_.string(), action, std::generic_category().message(error)));
}

void write_text_file(const fs::path& path, std::string_view text) {
  FileWriter writer(path);
  writer.append(std::as_bytes(std::span(text)));
  writer.commit();
}

}  // namespace fusedmoe
