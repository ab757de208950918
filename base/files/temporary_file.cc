#include "base/files/temporary_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/errors.h"

namespace embers {

std::optional<TemporaryFile> TemporaryFile::beside(const std::string& path) {
  std::error_code ignored;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::string name = path + ".XXXXXX";
  const int fd = ::mkstemp(name.data());
  if (fd < 0) return std::nullopt;
  ::fchmod(fd, 0644);
  return TemporaryFile(fd, std::move(name));
}

TemporaryFile TemporaryFile::unnamed() {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  std::string name = (folder / "embers.XXXXXX").string();
  const int fd = error ? -1 : ::mkstemp(name.data());
  if (fd < 0)
    fail(file_error_code(errno), "cannot create a temporary file in {}: {}", folder.string(),
         std::strerror(errno));
  ::unlink(name.c_str());
  return TemporaryFile(fd, "");
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), name_(std::exchange(other.name_, "")) {}

TemporaryFile::~TemporaryFile() {
  if (!name_.empty()) ::unlink(name_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

void TemporaryFile::write(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to("write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

size_t TemporaryFile::read_at(uint64_t offset, void* to, size_t n) const {
  size_t done = 0;
  while (done < n) {
    const ssize_t got =
        ::pread(fd_, static_cast<char*>(to) + done, n - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to("read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void TemporaryFile::fail_to(const char* verb) const {
  fail(file_error_code(errno), "cannot {} '{}': {}", verb, name_.empty() ? "temporary file" : name_,
       std::strerror(errno));
}

bool TemporaryFile::publish(const std::string& path) {
  if (::fsync(fd_) != 0 || std::rename(name_.c_str(), path.c_str()) != 0) return false;
  name_.clear();
  return true;
}

int TemporaryFile::release() { return std::exchange(fd_, -1); }

}  // namespace embers
