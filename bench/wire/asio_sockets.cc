#include <utility>  // Boost 1.74's Asio forgets it

#include <boost/asio.hpp>

#include "bench/harness/bench.h"
#include "bench/wire/known_rows.h"
#include "bench/wire/sockets.h"

namespace embers {
namespace asio = boost::asio;
namespace {

using Buffer = std::vector<uint64_t>;

struct All {
  size_t operator()(const boost::system::error_code& e, size_t) const { return e ? 0 : size_t{64} << 20; }
};

// One end: reads messages of one size and writes messages of another, header and payload together.
class AsioEnd {
 public:
  AsioEnd(Socket socket, size_t in_words, size_t out_words, uint16_t flags, size_t messages)
      : socket_(std::move(socket)), in_(in_words), out_(messages, Buffer(out_words)), flags_(flags) {}
  std::function<void(uint64_t correlation)> on_message;
  std::function<void()> on_end = [] { broken_socket("closed"); };
  // What is sent under this correlation.
  Buffer& message(uint64_t correlation) { return out_[correlation % out_.size()]; }
  Buffer& last_message() { return in_; }  // that was read

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
    queue_.push_back(bare_header(out_[0].size(), correlation, flags_));
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
  AsioClient(asio::io_context& io, Socket socket, TripSize size)
      : io_(io),
        end_(std::move(socket), size.reply_words, size.request_words, 0, kBenchMinibatches),
        outstanding_(size.outstanding) {
    end_.on_message = [this](uint64_t correlation) {
      replies_.check(correlation, rows_of(end_.last_message()));
      --left_;
      if (left_ == 0)
        io_.stop();
      else if (left_ >= outstanding_)
        end_.send(next_++);
    };
    end_.read();
  }
  double trips(size_t count) override {
    left_ = count;
    const auto begin = BenchClock::now();
    for (size_t i = 0; i < std::min(outstanding_, count); ++i) end_.send(next_++);
    io_.restart();
    io_.run();
    return seconds_since(begin);
  }
  std::span<const float> fetch(size_t minibatch) override {
    next_ = minibatch;
    trips(1);
    return rows_of(end_.last_message());
  }

 private:
  asio::io_context& io_;
  AsioEnd end_;
  const size_t outstanding_;
  const WireReplies replies_;
  size_t left_ = 0;
  uint64_t next_ = 0;  // correlation
};

}  // namespace

std::unique_ptr<SocketClient> asio_client(asio::io_context& io, Socket socket, TripSize size) {
  return std::make_unique<AsioClient>(io, std::move(socket), size);
}

void serve_asio(const std::string& kind, Socket socket, asio::io_context& io, TripSize size) {
  const bool ready_made = kind == "asio";
  // One that makes its replies sends no buffer again while it is still on its way.
  const size_t buffers = kBenchMinibatches * (ready_made ? 1 : 2 + size.outstanding / kBenchMinibatches);
  AsioEnd end(std::move(socket), size.request_words, size.reply_words, FrameHeader::kReply, buffers);
  KnownRows rows;
  const auto copy = [&](uint64_t correlation) {
    rows.copy(correlation, 0, kBenchKeys, rows_of(end.message(correlation)).data());
  };
  for (size_t m = 0; m < buffers; ++m) copy(m);
  asio::thread_pool second(kind == "rows2" ? 1 : 0);
  end.on_message = [&](uint64_t correlation) {
    if (kind == "rows2")
      return asio::post(second, [&, correlation] {
        copy(correlation);
        asio::post(io, [&end, correlation] { end.send(correlation); });
      });
    if (!ready_made) copy(correlation);
    end.send(correlation);
  };
  end.on_end = [&] { io.stop(); };
  end.read();
  io.restart();
  io.run();
  second.join();
}

}  // namespace embers
