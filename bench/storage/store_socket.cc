#include "bench/storage/store_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/errors.h"

namespace embers {
namespace {

constexpr size_t kReceived = 256 << 10;  // bytes of a read, at most
constexpr int kPatience = 60'000;        // ms

[[noreturn]] void broken(const char* why) {
  fail(ErrorCode::kUnavailable, "the connection to a server of the benchmark is broken: {}", why);
}

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

StoreSocket::StoreSocket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) fail(ErrorCode::kInvalid, "too long for a socket: {}", path);
  path.copy(address.sun_path, path.size());
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int why = errno;
    ::close(fd_);
    fail(ErrorCode::kUnavailable, "cannot reach a server at {}: {}", path, std::strerror(why));
  }
  received_.resize(2 * kReceived);
}

StoreSocket::~StoreSocket() { ::close(fd_); }

void StoreSocket::send_some() {
  while (sent_ < unsent_.size()) {
    const ssize_t n =
        ::send(fd_, unsent_.data() + sent_, unsent_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && would_wait()) return;
    if (n < 0) broken(std::strerror(errno));
    sent_ += static_cast<size_t>(n);
  }
  unsent_.clear();
  sent_ = 0;
}

void StoreSocket::send_all() {
  for (send_some(); !unsent_.empty(); send_some()) wait();
}

std::string_view StoreSocket::take(size_t bytes) {
  while (end_ - begin_ < bytes)
    if (!receive()) wait();
  begin_ += bytes;
  return {received_.data() + begin_ - bytes, bytes};
}

std::string_view StoreSocket::take_line() {
  for (size_t searched = 0;;) {
    const std::string_view there(received_.data() + begin_, end_ - begin_);
    if (const size_t at = there.find("\r\n", searched); at != there.npos) {
      begin_ += at + 2;
      return there.substr(0, at);
    }
    searched = there.size() - (there.ends_with('\r') ? 1 : 0);
    if (!receive()) wait();
  }
}

// Whether anything came.
bool StoreSocket::receive() {
  if (received_.size() - end_ < kReceived) {
    if (end_ - begin_ > received_.size() / 2) received_.resize(2 * received_.size());
    std::memmove(received_.data(), received_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const ssize_t n = ::recv(fd_, received_.data() + end_, received_.size() - end_, MSG_DONTWAIT);
  if (n < 0 && would_wait()) return false;
  if (n < 0) broken(std::strerror(errno));
  if (n == 0) broken("the server has closed it");
  end_ += static_cast<size_t>(n);
  return true;
}

void StoreSocket::wait() {
  pollfd socket{fd_, POLLIN, 0};
  if (!unsent_.empty()) socket.events |= POLLOUT;
  const int ready = ::poll(&socket, 1, kPatience);
  if (ready < 0 && errno != EINTR) broken(std::strerror(errno));
  if (ready == 0) broken("nothing has moved for a minute");
  if (ready < 0) return;
  if ((socket.revents & POLLOUT) != 0) send_some();
  if ((socket.revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive();
}

}  // namespace embers
