#include "base/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/errors.h"

namespace embers {

File File::create(const std::string& path) {
  return File(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), path, "create");
}

File File::append(const std::string& path) {
  return File(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), path, "write to");
}

File File::open(const std::string& path) {
  return File(::open(path.c_str(), O_RDONLY | O_CLOEXEC), path, "open");
}

File File::open_in(const File& directory, const std::string& name) {
  return File(::openat(directory.descriptor_, name.c_str(), O_RDONLY | O_CLOEXEC),
              directory.path_ + "/" + name, "open");
}

File::File(int descriptor, std::string path, const char* verb)
    : descriptor_(descriptor), path_(std::move(path)) {
  if (descriptor_ < 0) fail_to(verb);
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

uint64_t File::size() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail_to("examine");
  return static_cast<uint64_t>(status.st_size);
}

void File::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to("write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

size_t File::read_at(uint64_t offset, void* to, size_t n) const {
  size_t done = 0;
  while (done < n) {
    const ssize_t got =
        ::pread(descriptor_, static_cast<char*>(to) + done, n - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to("read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void File::sync() const {
  if (::fsync(descriptor_) != 0) fail_to("sync");
}

void File::fail_to(const char* verb) const {
  fail(file_error_code(errno), "cannot {} '{}': {}", verb, path_, std::generic_category().message(errno));
}

void sync_directory(const std::string& path) { File::open(path).sync(); }

}  // namespace embers
