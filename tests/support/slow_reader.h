#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

namespace embers::testing_support {

// A pipe or a terminal that reads only when the test wants it to.
class SlowReader {
 public:
  enum class Kind { kPipe, kTerminal };

  explicit SlowReader(Kind kind = Kind::kPipe) {
    if (kind == Kind::kPipe) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
      std::tie(from_, to_) = std::pair(ends[0], ends[1]);
    } else {
      from_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
      char name[64];
      if (from_ < 0 || ::grantpt(from_) != 0 || ::unlockpt(from_) != 0 ||
          ::ptsname_r(from_, name, sizeof name) != 0)
        throw std::runtime_error("no terminal");
      to_ = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    }
  }
  // Writes to a pipe with a name, which somebody else reads.
  explicit SlowReader(const std::string& path) : to_(::open(path.c_str(), O_WRONLY | O_CLOEXEC)) {}
  ~SlowReader() {
    close_reader();
    close_writer();
  }
  SlowReader(const SlowReader&) = delete;
  SlowReader& operator=(const SlowReader&) = delete;

  int writer() const { return to_; }
  int reader() const { return from_; }

  // Writes '.' until there is no room for more.
  void fill() const {
    const int flags = ::fcntl(to_, F_GETFL);
    ::fcntl(to_, F_SETFL, flags | O_NONBLOCK);
    while (::write(to_, ".", 1) == 1) {
    }
    ::fcntl(to_, F_SETFL, flags);
  }
  bool is_full() const {
    pollfd state{to_, POLLOUT, 0};
    return ::poll(&state, 1, 0) == 0;
  }

  // Nobody reads any more.
  void close_reader() { close(from_); }
  // The test itself writes no more: read_to_the_end() ends with the other processes that write.
  void close_writer() { close(to_); }

  // Waits for something; "" at the end.
  std::string read_some() const {
    char part[65536];
    ssize_t n;
    while ((n = ::read(from_, part, sizeof part)) < 0 && errno == EINTR) {
    }
    return {part, n > 0 ? static_cast<size_t>(n) : 0};
  }
  std::string read_to_the_end() const {
    std::string text;
    for (std::string part; !(part = read_some()).empty();) text += part;
    return text;
  }

 private:
  static void close(int& fd) {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }

  int from_ = -1, to_ = -1;
};

}  // namespace embers::testing_support
