#include "base/files/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/errors.h"

namespace embers {

std::unique_ptr<const DirectoryLock> DirectoryLock::take(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    fail(file_error_code(error ? error.value() : errno), "cannot use directory '{}': {}", directory,
         error ? error.message() : std::generic_category().message(errno));
  std::unique_ptr<const DirectoryLock> lock(new DirectoryLock(descriptor));
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK)
    fail(ErrorCode::kInvalid,
         "another job is writing to '{}': choose another directory, or wait until that job has ended",
         directory);
  return lock;  // a file system without locks
}

DirectoryLock::~DirectoryLock() { ::close(descriptor_); }

}  // namespace embers
