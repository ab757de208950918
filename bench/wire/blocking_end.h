#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <utility>  // Boost 1.74's Asio forgets it

#include <boost/asio.hpp>

#include <algorithm>
#include <climits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bench/harness/bench.h"
#include "bench/wire/sockets.h"

namespace embers {

// One end of a connection whose calls wait.
class BlockingEnd {
 public:
  BlockingEnd(Socket socket, size_t in_words) : socket_(std::move(socket)), in_(in_words) {
    socket_.native_non_blocking(false);
  }
  // False at the end of the connection.
  bool receive(FrameHeader& h) {
    if (!receive(&h, sizeof h)) return false;
    check_size(h, in_.size());
    return receive(in_.data(), in_.size() * 8);
  }
  bool receive(void* to, size_t bytes) {
    return bytes == 0 ||
           ::recv(socket_.native_handle(), to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }
  std::vector<uint64_t>& last_message() { return in_; }
  // False if nothing came by then.
  bool wait_for_message(std::optional<BenchClock::time_point> until) {
    pollfd fd{socket_.native_handle(), POLLIN, 0};
    const auto left =
        std::max(BenchClock::duration(0), until.value_or(BenchClock::now()) - BenchClock::now());
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec wait{ns / 1'000'000'000, ns % 1'000'000'000};
    return ::ppoll(&fd, 1, until ? &wait : nullptr, nullptr) > 0;
  }
  // From another thread than receive() too, which fails then.
  void shut_down() { ::shutdown(socket_.native_handle(), SHUT_RDWR); }
  // False if the peer has gone.
  bool send(std::span<iovec> parts) {
    while (!parts.empty()) {
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = std::min<size_t>(parts.size(), IOV_MAX);
      const ssize_t n = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
      if (n < 0) return false;
      parts = after(parts, static_cast<size_t>(n));
    }
    return true;
  }
  // So that a client that sends them never waits for a server that sends replies.
  void buffer_all_requests() {
    socket_.set_option(boost::asio::socket_base::send_buffer_size(kRequestBuffer));
  }

 private:
  static constexpr int kRequestBuffer = 4 << 20;

  // What is left when so many bytes are gone.
  static std::span<iovec> after(std::span<iovec> parts, size_t gone) {
    for (; !parts.empty() && gone >= parts[0].iov_len; parts = parts.subspan(1)) gone -= parts[0].iov_len;
    if (parts.empty()) return parts;
    parts[0].iov_base = static_cast<char*>(parts[0].iov_base) + gone;
    parts[0].iov_len -= gone;
    return parts;
  }
  Socket socket_;
  std::vector<uint64_t> in_;
};

// A pair that passes rows in memory that both processes map, of the client's making (mapped_sockets.cc).
std::unique_ptr<SocketClient> mapped_client(Socket socket, TripSize size);
void serve_mapped(BlockingEnd& end, Stores stores);

}  // namespace embers
