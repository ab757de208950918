#include "bench/wire/sockets.h"

#include <utility>  // Boost 1.74's Asio forgets it

#include <boost/asio.hpp>

#include <cstring>
#include <thread>
#include <vector>

#include "actors/frames/frame.h"
#include "actors/transport/addresses/endpoint.h"
#include "actors/transport/addresses/unix_address.h"
#include "actors/transport/transport.h"
#include "apps/process/runtime.h"
#include "base/floats/copy_floats.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/wire/owner.h"
#include "storage/memory/pages.h"

namespace embers {
namespace asio = boost::asio;
namespace {

using Socket = Connection::Socket;
using Buffer = std::vector<uint64_t>;

const size_t kReadyMade = kBenchMinibatches;  // messages
// Of a server that makes its replies, so that no buffer is sent again while it is still on its way.
const size_t kBuffers = 2 * kBenchOutstanding;

struct All {
  size_t operator()(const boost::system::error_code& e, size_t) const { return e ? 0 : size_t{64} << 20; }
};

[[noreturn]] void broken(const std::string& why) {
  fail(ErrorCode::kInternal, "a socket of the benchmark broke: {}", why);
}

FrameHeader header(size_t words, uint64_t correlation, uint16_t flags) {
  FrameHeader h;
  h.words = h.total = static_cast<uint32_t>(words);
  h.correlation = correlation;
  h.flags = flags;
  return h;
}

void check_size(const FrameHeader& h, size_t words) {
  if (h.magic != FrameHeader::kMagic || h.words != words) broken("a frame of another size");
}

// --- asio ----------------------------------------------------------------------------------------

// One end: reads messages of one size and writes messages of another, header and payload together.
class AsioEnd {
 public:
  AsioEnd(Socket socket, size_t in_words, size_t out_words, uint16_t flags, size_t messages = kReadyMade)
      : socket_(std::move(socket)), in_(in_words), out_(messages, Buffer(out_words)), flags_(flags) {
    tune(socket_);
  }
  std::function<void(uint64_t correlation)> on_message;
  std::function<void()> on_end = [] { broken("closed"); };
  // What is sent under this correlation.
  Buffer& message(uint64_t correlation) { return out_[correlation % out_.size()]; }

  void read() {
    asio::async_read(socket_, asio::buffer(&header_, sizeof header_), [this](auto e, size_t) {
      if (e) return on_end();
      check_size(header_, in_.size());
      asio::async_read(socket_, asio::buffer(in_.data(), in_.size() * 8), All{}, [this](auto e, size_t) {
        if (e) return on_end();
        on_message(header_.correlation);
        read();
      });
    });
  }
  void send(uint64_t correlation) {
    queue_.push_back(header(out_[0].size(), correlation, flags_));
    if (busy_.empty()) write();
  }

 private:
  void write() {
    busy_.swap(queue_);
    std::vector<asio::const_buffer> buffers;
    for (const FrameHeader& h : busy_) {
      buffers.push_back(asio::buffer(&h, sizeof h));
      const Buffer& out = message(h.correlation);
      buffers.push_back(asio::buffer(out.data(), out.size() * 8));
    }
    asio::async_write(socket_, buffers, All{}, [this](auto e, size_t) {
      if (e) return on_end();
      busy_.clear();
      if (!queue_.empty()) write();
    });
  }

  Socket socket_;
  Buffer in_;
  std::vector<Buffer> out_;
  const uint16_t flags_;
  FrameHeader header_;
  std::vector<FrameHeader> queue_, busy_;
};

class AsioClient final : public SocketClient {
 public:
  AsioClient(asio::io_context& io, Socket socket, TripSize size, size_t outstanding)
      : io_(io), end_(std::move(socket), size.reply_words, size.request_words, 0), outstanding_(outstanding) {
    end_.on_message = [this](uint64_t) {
      --left_;
      if (left_ == 0)
        io_.stop();
      else if (left_ >= outstanding_)
        end_.send(++last_);
    };
    end_.read();
  }
  double trips(size_t count) override {
    left_ = count;
    const auto begin = BenchClock::now();
    for (size_t i = 0; i < std::min(outstanding_, count); ++i) end_.send(++last_);
    io_.restart();
    io_.run();
    return seconds_since(begin);
  }

 private:
  asio::io_context& io_;
  AsioEnd end_;
  const size_t outstanding_;
  size_t left_ = 0;
  uint64_t last_ = 0;
};

// As many rows as embers' side has, and the places of each minibatch's rows.
class KnownRows {
 public:
  KnownRows() : pages_(kBenchMinibatches * kBenchKeys * kBenchDim * sizeof(float), true) {
    auto* const rows = reinterpret_cast<float*>(pages_.data());
    const KeyMinibatches numbers(kBenchMinibatches * kBenchKeys);
    for (size_t b = 0; b < kBenchMinibatches; ++b)
      for (const int64_t number : numbers[b]) places_.push_back(rows + number * kBenchDim);
    std::fill_n(rows, places_.size() * kBenchDim, 0.5f);
  }
  // Copies to the end of `reply`, after whatever comes before the rows.
  void copy(uint64_t minibatch, Buffer& reply) {
    const size_t first = minibatch % kBenchMinibatches * kBenchKeys;
    auto* const end = reinterpret_cast<float*>(reply.data() + reply.size());
    copy_rows(std::span<const float* const>(places_).subspan(first, kBenchKeys), kBenchDim,
              end - kBenchKeys * kBenchDim, found_.data());
  }

 private:
  storage::Pages pages_;
  std::vector<const float*> places_;
  std::vector<uint8_t> found_ = std::vector<uint8_t>(kBenchKeys);
};

void serve_asio(const std::string& kind, Socket socket, asio::io_context& io, TripSize size) {
  AsioEnd end(std::move(socket), size.request_words, size.reply_words, FrameHeader::kReply,
              kind == "asio" ? kReadyMade : kBuffers);
  std::unique_ptr<KnownRows> rows;
  if (kind != "asio") rows = std::make_unique<KnownRows>();
  asio::thread_pool second(kind == "rows2" ? 1 : 0);
  const auto copy = [&](uint64_t correlation) { rows->copy(correlation, end.message(correlation)); };
  end.on_message = [&](uint64_t correlation) {
    if (kind == "rows2")
      return asio::post(second, [&, correlation] {
        copy(correlation);
        asio::post(io, [&end, correlation] { end.send(correlation); });
      });
    if (rows) copy(correlation);
    end.send(correlation);
  };
  end.on_end = [&] { io.stop(); };
  end.read();
  io.restart();
  io.run();
  second.join();
}

// --- blocking ------------------------------------------------------------------------------------

class BlockingEnd {
 public:
  BlockingEnd(Socket socket, size_t in_words, size_t out_words, uint16_t flags)
      : socket_(std::move(socket)), in_(in_words), out_(kReadyMade, Buffer(out_words)), flags_(flags) {
    tune(socket_);
    // All requests fit, so that the two sides never wait for one another to read.
    socket_.set_option(asio::socket_base::send_buffer_size(4 << 20));
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
  void send(uint64_t correlation) {
    Buffer& out = out_[correlation % kReadyMade];
    FrameHeader h = header(out.size(), correlation, flags_);
    iovec parts[2] = {{&h, sizeof h}, {out.data(), out.size() * 8}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    size_t left = parts[0].iov_len + parts[1].iov_len;
    while (left > 0) {
      const ssize_t n = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
      if (n < 0) broken(std::strerror(errno));
      left -= static_cast<size_t>(n);
      for (size_t gone = static_cast<size_t>(n); gone > 0;) {
        const size_t part = std::min(gone, message.msg_iov->iov_len);
        message.msg_iov->iov_base = static_cast<char*>(message.msg_iov->iov_base) + part;
        message.msg_iov->iov_len -= part;
        gone -= part;
        if (message.msg_iov->iov_len == 0) ++message.msg_iov, --message.msg_iovlen;
      }
    }
  }

 private:
  bool recv_all(void* to, size_t bytes) {
    return ::recv(socket_.native_handle(), to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }
  Socket socket_;
  Buffer in_;
  std::vector<Buffer> out_;
  const uint16_t flags_;
};

class BlockingClient final : public SocketClient {
 public:
  BlockingClient(Socket socket, TripSize size, size_t outstanding)
      : end_(std::move(socket), size.reply_words, size.request_words, 0), outstanding_(outstanding) {}
  double trips(size_t count) override {
    const auto begin = BenchClock::now();
    uint64_t correlation = 0;
    for (size_t i = 0; i < count + outstanding_; ++i) {
      if (i >= outstanding_ && !end_.receive(correlation)) broken("closed");
      if (i < count) end_.send(i);
    }
    return seconds_since(begin);
  }

 private:
  BlockingEnd end_;
  const size_t outstanding_;
};

void serve_blocking(Socket socket, TripSize size) {
  BlockingEnd end(std::move(socket), size.request_words, size.reply_words, FrameHeader::kReply);
  for (uint64_t correlation = 0; end.receive(correlation);) end.send(correlation);
}

// --- both ----------------------------------------------------------------------------------------

template <class Protocol>
void serve(const std::string& kind, const typename Protocol::endpoint& at, TripSize size,
           const std::function<std::string(const typename Protocol::endpoint&)>& text) {
  asio::io_context io(1);
  typename Protocol::acceptor acceptor(io, at);
  std::thread server([&] {
    for (;;) {
      Socket socket(acceptor.accept());
      if (kind == "blocking")
        serve_blocking(std::move(socket), size);
      else
        serve_asio(kind, std::move(socket), io, size);
    }
  });
  answer_lines(text(acceptor.local_endpoint()), [](const std::string& line) { return line; });
  end_process(0);
}

asio::io_context& client_io() {
  static asio::io_context io(1);
  return io;
}

Socket connect(const Endpoint& to) {
  if (to.unix_socket) {
    asio::local::stream_protocol::socket socket(client_io());
    socket.connect(unix_address(to));
    return Socket(std::move(socket));
  }
  asio::ip::tcp::socket socket(client_io());
  socket.connect({asio::ip::make_address(to.host), static_cast<uint16_t>(std::stoi(to.port))});
  return Socket(std::move(socket));
}

}  // namespace

void serve_sockets(const std::string& kind, const std::string& address, TripSize size) {
  const Endpoint at = parse_endpoint(address);
  if (at.unix_socket)
    serve<asio::local::stream_protocol>(kind, unix_address(at), size, [&](auto&) { return address; });
  else
    serve<asio::ip::tcp>(
        kind, {asio::ip::make_address(at.host), static_cast<uint16_t>(std::stoi(at.port))}, size,
        [](const auto& e) { return fmt::format("{}:{}", e.address().to_string(), e.port()); });
}

std::unique_ptr<SocketClient> connect_sockets(const std::string& kind, const std::string& address,
                                              TripSize size, size_t outstanding) {
  Socket socket = connect(parse_endpoint(address));
  if (kind == "blocking") return std::make_unique<BlockingClient>(std::move(socket), size, outstanding);
  return std::make_unique<AsioClient>(client_io(), std::move(socket), size, outstanding);
}

}  // namespace embers
