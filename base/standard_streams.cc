#include "base/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/errors.h"

namespace embers {
namespace {

bool reader_has_gone() {
  pollfd state{STDOUT_FILENO, 0, 0};
  return ::poll(&state, 1, 0) == 1 && (state.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

void open_standard_streams() {
  // The lowest free number is fd. Reading a closed standard input is an error still.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDWR) < 0) return;
}

void flush_results() {
  errno = 0;
  const bool earlier = std::ferror(stdout) != 0;
  const bool now = std::fflush(stdout) != 0;
  const int why = errno;
  if (!earlier && !now) return;
  std::clearerr(stdout);  // it is said once
  if (why == EPIPE || reader_has_gone()) return;
  fail(file_error_code(why == 0 ? ENOSPC : why), "cannot write the results to standard output{}",
       why == 0 ? "" : std::string(": ") + std::strerror(why));
}

}  // namespace embers
