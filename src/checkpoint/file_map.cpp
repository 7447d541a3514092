#include "checkpoint/file_map.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "fusedmoe/error.h"

namespace fusedmoe {
namespace {

static_assert(sizeof(std::size_t) == 8, "checkpoints are larger than a 32-bit address space");

std::string system_reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void throw_cannot_open(const std::filesystem::path& path, int error) {
  std::error_code ignored;
  if (error == ENOENT && std::filesystem::is_symlink(path, ignored)) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format(
            "[checkpoint] file {}: expected a file, got a link to {}, which does not exist; "
            "the download is not complete: fetch it again",
            path.string(), std::filesystem::read_symlink(path, ignored).string()));
  }
  const bool is_missing = error == ENOENT || error == ENOTDIR;
  throw Error(is_missing ? ErrorCode::kNotFound : ErrorCode::kDevice,
              fmt::format("[checkpoint] file {}: expected to read it, got: {}; check the path and "
                          "the permissions",
                          path.string(), system_reason(error)));
}

}  // namespace

FileMap::FileMap(const std::filesystem::path& path) : name_(path.string()) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw_cannot_open(path, errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    const int error = errno;
    close();
    throw_cannot_open(path, error);
  }
  if (!S_ISREG(status.st_mode)) {
    close();
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("[checkpoint] file {}: expected a regular file, got a directory, pipe or "
                    "device; give the path of a checkpoint file",
                    name_));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    close();
    throw Error(ErrorCode::kDevice,
                fmt::format("[checkpoint] file {}: expected to map {} bytes, got: {}; check the "
                            "limit on address space (ulimit -v)",
                            name_, size_, system_reason(error)));
  }
  data_ = static_cast<const std::byte*>(mapped);
}

FileMap::~FileMap() { close(); }

FileMap::FileMap(FileMap&& other) noexcept { *this = std::move(other); }

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(data_, other.data_);
  return *this;
}

void FileMap::close() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
  data_ = nullptr;
  descriptor_ = -1;
}

void FileMap::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error(
          ErrorCode::kDevice,
          fmt::format("[checkpoint] file {}: expected to read {} bytes at {}, got: {}; check "
                      "the disk or the network mount",
                      name_, out.size(), offset, system_reason(errno)));
    }
    if (count == 0) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("[checkpoint] file {}: expected {} more bytes at {}, got the end of "
                              "the file; fetch it again",
                              name_, out.size(), offset));
    }
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

void FileMap::check_size() const {
  struct stat status {};
  const bool is_known = ::fstat(descriptor_, &status) == 0;
  if (is_known && static_cast<std::uint64_t>(status.st_size) == size_) return;
  throw Error(ErrorCode::kCorruptData,
              fmt::format("[checkpoint] file {}: expected {} bytes as when it was opened, got {}; "
                          "the file was changed in use: replace files by rename, then open again",
                          name_, size_, is_known ? std::to_string(status.st_size) : "no answer"));
}

std::string read_text_file(const std::filesystem::path& path) {
  constexpr std::uint64_t kMaxBytes = 100'000'000;
  const FileMap file(path);
  if (file.size() > kMaxBytes) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("[checkpoint] file {}: expected at most {} bytes of text, got {}; this "
                            "is not the file that its name says",
                            path.string(), kMaxBytes, file.size()));
  }
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace fusedmoe
