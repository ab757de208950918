#include <sys/socket.h>
#include <sys/uio.h>

#include <utility>  // Boost 1.74's Asio forgets it

#include <boost/asio.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "bench/harness/bench.h"
#include "bench/wire/known_rows.h"
#include "bench/wire/sockets.h"

namespace embers {
namespace asio = boost::asio;
namespace {

using Buffer = std::vector<uint64_t>;

constexpr int kRequestBuffer = 4 << 20;  // all requests fit, so that the two ends never wait for one another
constexpr size_t kRowBytes = kBenchDim * sizeof(float);

class BlockingEnd {
 public:
  BlockingEnd(Socket socket, size_t in_words) : socket_(std::move(socket)), in_(in_words) {
    socket_.native_non_blocking(false);
  }
  // False at the end of the connection.
  bool receive(uint64_t& correlation) {
    FrameHeader h;
    if (!recv_all(&h, sizeof h)) return false;
    check_size(h, in_.size());
    correlation = h.correlation;
    return recv_all(in_.data(), in_.size() * 8);
  }
  Buffer& last_message() { return in_; }
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
  Socket& socket() { return socket_; }

 private:
  // What is left when so many bytes are gone.
  static std::span<iovec> after(std::span<iovec> parts, size_t gone) {
    for (; !parts.empty() && gone >= parts[0].iov_len; parts = parts.subspan(1)) gone -= parts[0].iov_len;
    if (parts.empty()) return parts;
    parts[0].iov_base = static_cast<char*>(parts[0].iov_base) + gone;
    parts[0].iov_len -= gone;
    return parts;
  }
  bool recv_all(void* to, size_t bytes) {
    return ::recv(socket_.native_handle(), to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }

  Socket socket_;
  Buffer in_;
};

class BlockingClient final : public SocketClient {
 public:
  BlockingClient(Socket socket, TripSize size)
      : end_(std::move(socket), size.reply_words),
        request_(size.request_words),
        outstanding_(size.outstanding) {
    end_.socket().set_option(asio::socket_base::send_buffer_size(kRequestBuffer));
  }
  double trips(size_t count) override {
    const auto begin = BenchClock::now();
    for (size_t i = 0; i < count + outstanding_; ++i) {
      if (i >= outstanding_) receive();
      if (i < count) send(i);
    }
    return seconds_since(begin);
  }
  std::span<const float> fetch(size_t minibatch) override {
    send(minibatch);
    receive();
    return rows_of(end_.last_message());
  }

 private:
  void send(uint64_t correlation) {
    FrameHeader h = bare_header(request_.size(), correlation, 0);
    iovec parts[] = {{&h, sizeof h}, {request_.data(), request_.size() * 8}};
    if (!end_.send(parts)) broken_socket(std::strerror(errno));
  }
  void receive() {
    uint64_t correlation = 0;
    if (!end_.receive(correlation)) broken_socket("closed");
    replies_.check(correlation, rows_of(end_.last_message()));
  }

  BlockingEnd end_;
  Buffer request_;
  const size_t outstanding_;
  const WireReplies replies_;
};

// Sends replies: what precedes the rows, then the rows.
class BlockingServer {
 public:
  BlockingServer(BlockingEnd& end, TripSize size) : end_(end), ready_made_(kBenchMinibatches) {
    for (size_t m = 0; m < ready_made_.size(); ++m) {
      ready_made_[m].resize(size.reply_words);
      rows_.copy(m, 0, kBenchKeys, rows_of(ready_made_[m]).data());
    }
    before_rows_ = size.reply_words * 8 - kBenchKeys * kRowBytes;
  }

  bool blocking(uint64_t correlation) {
    Buffer& reply = ready_made_[correlation % kBenchMinibatches];
    FrameHeader h = header(correlation);
    iovec parts[] = {{&h, sizeof h}, {reply.data(), reply.size() * 8}};
    return end_.send(parts);
  }
  bool chunked(uint64_t correlation, size_t chunk_bytes) {
    const size_t rows = chunk_bytes / kRowBytes;
    chunk_.resize(rows * kBenchDim);
    FrameHeader h = header(correlation);
    for (size_t first = 0; first < kBenchKeys; first += rows) {
      rows_.copy(correlation, first, rows, chunk_.data());
      iovec parts[] = {{&h, first == 0 ? sizeof h : 0},
                       {ready_made_[0].data(), first == 0 ? before_rows_ : 0},
                       {chunk_.data(), chunk_bytes}};
      if (!end_.send(parts)) return false;
    }
    return true;
  }
  bool gather(uint64_t correlation) {
    FrameHeader h = header(correlation);
    parts_ = {{&h, sizeof h}, {ready_made_[0].data(), before_rows_}};
    for (const float* const row : rows_.places(correlation))
      parts_.push_back({const_cast<float*>(row), kRowBytes});
    return end_.send(parts_);
  }

 private:
  FrameHeader header(uint64_t correlation) const {
    return bare_header(ready_made_[0].size(), correlation, FrameHeader::kReply);
  }

  BlockingEnd& end_;
  KnownRows rows_;
  std::vector<Buffer> ready_made_;
  size_t before_rows_;
  std::vector<float> chunk_;
  std::vector<iovec> parts_;
};

}  // namespace

std::unique_ptr<SocketClient> blocking_client(Socket socket, TripSize size) {
  return std::make_unique<BlockingClient>(std::move(socket), size);
}

void serve_blocking(const std::string& kind, Socket socket, TripSize size, const SocketSettings& settings) {
  BlockingEnd end(std::move(socket), size.request_words);
  BlockingServer server(end, size);
  for (uint64_t correlation = 0; end.receive(correlation);) {
    const bool sent = kind == "chunked"  ? server.chunked(correlation, settings.chunk_bytes)
                      : kind == "gather" ? server.gather(correlation)
                                         : server.blocking(correlation);
    if (!sent) return;
  }
}

}  // namespace embers
