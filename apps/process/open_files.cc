#include "apps/process/open_files.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/errors.h"

namespace embers {
namespace {

constexpr size_t kMostNewcomers = 1024;
constexpr size_t kOwn = 64;                // of libraries, data, log, own servers
constexpr size_t kConnectionsOfOwner = 3;  // its own, and two of the master's to it (remote_owner())

}  // namespace

size_t allow_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  const rlimit most{files.rlim_max, files.rlim_max};
  if (files.rlim_cur < most.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &most) != 0) return files.rlim_cur;
  return most.rlim_cur;
}

void check_open_files(size_t wanted, const std::string& what) {
  const size_t allowed = allow_open_files();
  if (wanted <= allowed) return;
  fail(ErrorCode::kInvalid,
       "{} needs about {} open files and sockets, but this process may have {}: raise the limit where it is "
       "started (ulimit -Hn, or LimitNOFILE= of a systemd unit)",
       what, wanted, allowed);
}

size_t places_for_newcomers() { return std::clamp<size_t>(allow_open_files() / 4, 1, kMostNewcomers); }

size_t open_files_of_master(size_t workers, size_t owners) {
  return workers + kConnectionsOfOwner * owners + kOwn;
}

}  // namespace embers
