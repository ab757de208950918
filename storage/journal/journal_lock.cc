#include "storage/journal/journal_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/errors.h"

namespace embers::storage {
namespace {

constexpr size_t kLongestName = 4096;

int open_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0)
    fail(file_error_code(errno), "cannot write to '{}': {}", path, std::generic_category().message(errno));
  return descriptor;
}

// Whether it got the lock. A file system without locks gives it to everybody.
bool try_lock(int descriptor, int kind) {
  return ::flock(descriptor, kind | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

std::string holder_of(int descriptor) {
  std::string text(kLongestName, 0);
  const ssize_t n = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

// If this fails, an error is only less clear.
void sign(int descriptor, const std::string& holder) {
  if (::ftruncate(descriptor, 0) == 0) [[maybe_unused]]
    const ssize_t n = ::pwrite(descriptor, holder.data(), holder.size(), 0);
}

struct Descriptor {
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  int release() { return std::exchange(number, -1); }
  int number;
};

}  // namespace

std::unique_ptr<const JournalLock> JournalLock::take(const std::string& directory, const std::string& job,
                                                     uint32_t owner, uint64_t run) {
  const std::string me = fmt::format("job '{}' (run {:016x})", job, run);
  Descriptor of_run{open_file(directory + "/lock")};
  if (try_lock(of_run.number, LOCK_EX)) sign(of_run.number, me);
  ::flock(of_run.number, LOCK_SH);  // an exclusive holder is about to share
  if (const std::string holder = holder_of(of_run.number); holder != me)
    fail(ErrorCode::kInvalid,
         "storage.journal '{}' is in use by {}: give each job a directory of its own, or wait until that one "
         "has ended",
         directory, holder);
  Descriptor of_owner{open_file(fmt::format("{}/shard-{}.lock", directory, owner))};
  if (!try_lock(of_owner.number, LOCK_EX))
    fail(ErrorCode::kInvalid,
         "storage.journal '{}': shard {} of {} is still running ({}): it must end before another takes its "
         "place",
         directory, owner, me, holder_of(of_owner.number));
  sign(of_owner.number, fmt::format("pid {}", ::getpid()));
  return std::unique_ptr<const JournalLock>(new JournalLock(of_run.release(), of_owner.release()));
}

JournalLock::~JournalLock() {
  ::close(owner_);
  ::close(run_);
}

}  // namespace embers::storage
