#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <queue>
#include <semaphore>
#include <thread>

#include "bench/harness/bench.h"
#include "bench/wire/blocking_end.h"
#include "bench/wire/due_moments.h"
#include "bench/wire/known_rows.h"

namespace embers {
namespace {

using Buffer = std::vector<uint64_t>;

constexpr size_t kRowBytes = kBenchDim * sizeof(float);

class BlockingClient final : public SocketClient {
 public:
  BlockingClient(Socket socket, TripSize size)
      : end_(std::move(socket), size.reply_words),
        request_(size.request_words),
        outstanding_(size.outstanding) {
    end_.buffer_all_requests();
  }
  double trips(size_t count) override {
    const auto begin = BenchClock::now();
    for (size_t i = 0; i < count + outstanding_; ++i) {
      if (i >= outstanding_) receive();
      if (i < count) send(i);
    }
    return seconds_since(begin);
  }
  // Replies come in the order of requests, and these never fill their buffer, so that sending does not wait.
  Latencies trips_at(double rate, size_t count, uint64_t seed) override {
    DueMoments moments(rate, seed);
    Latencies latencies;
    std::queue<BenchClock::time_point> under_way;  // when they were due
    auto due = moments.next();
    for (size_t asked = 0; latencies.size() < count;) {
      const bool may_ask = asked < count && under_way.size() < outstanding_;
      if (may_ask && due <= BenchClock::now()) {
        send(asked++);
        under_way.push(due);
        due = moments.next();
      } else if (end_.wait_for_message(may_ask ? std::optional(due) : std::nullopt)) {
        receive();
        latencies.add(seconds_since(under_way.front()) * 1e3);
        under_way.pop();
      }
    }
    return latencies;
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
    FrameHeader h;
    if (!end_.receive(h)) broken_socket("closed");
    replies_.check(h.correlation, rows_of(end_.last_message()));
  }

  BlockingEnd end_;
  Buffer request_;
  const size_t outstanding_;
  const WireReplies replies_;
};

// Sends replies: what precedes the rows, then the rows.
class BlockingServer {
 public:
  BlockingServer(BlockingEnd& end, TripSize size)
      : end_(end),
        ready_made_(ready_made(size)),
        before_rows_(size.reply_words * 8 - kBenchKeys * kRowBytes) {}

  bool blocking(uint64_t correlation) {
    Buffer& reply = ready_made_[correlation % kBenchMinibatches];
    FrameHeader h = header(correlation);
    iovec parts[] = {{&h, sizeof h}, {reply.data(), reply.size() * 8}};
    return end_.send(parts);
  }
  bool chunked(uint64_t correlation, size_t chunk_bytes) {
    for (size_t first = 0; first < kBenchKeys; first += chunk_bytes / kRowBytes) {
      copy(correlation, first, chunk_bytes, chunk_);
      if (!send(chunk_)) return false;
    }
    return true;
  }
  // Serves all of a connection so.
  void chunked2(size_t chunk_bytes) {
    std::array<Chunk, kChunksUnderWay> chunks;
    std::counting_semaphore<> empty(kChunksUnderWay), full(0);
    bool over = false;
    std::thread sender([&] {
      for (size_t i = 0;; ++i) {
        full.acquire();
        if (over) return;
        if (!send(chunks[i % kChunksUnderWay])) end_.shut_down();
        empty.release();
      }
    });
    size_t i = 0;
    for (FrameHeader h; end_.receive(h);)
      for (size_t first = 0; first < kBenchKeys; first += chunk_bytes / kRowBytes, ++i) {
        empty.acquire();
        copy(h.correlation, first, chunk_bytes, chunks[i % kChunksUnderWay]);
        full.release();
      }
    for (size_t k = 0; k < kChunksUnderWay; ++k) empty.acquire();
    over = true;
    full.release();
    sender.join();
  }
  bool gather(uint64_t correlation) {
    FrameHeader h = header(correlation);
    parts_ = {{&h, sizeof h}, {ready_made_[0].data(), before_rows_}};
    for (const float* const row : rows_.places(correlation))
      parts_.push_back({const_cast<float*>(row), kRowBytes});
    return end_.send(parts_);
  }

 private:
  static constexpr ptrdiff_t kChunksUnderWay = 4;  // of chunked2

  struct Chunk {
    FrameHeader header;
    bool first = false;  // the header and what precedes the rows come before it
    std::vector<float> rows;
  };
  void copy(uint64_t correlation, size_t first, size_t bytes, Chunk& chunk) {
    chunk.header = header(correlation);
    chunk.first = first == 0;
    chunk.rows.resize(bytes / sizeof(float));
    rows_.copy(correlation, first, bytes / kRowBytes, chunk.rows.data());
  }
  bool send(Chunk& chunk) {
    iovec parts[] = {{&chunk.header, chunk.first ? sizeof chunk.header : 0},
                     {ready_made_[0].data(), chunk.first ? before_rows_ : 0},
                     {chunk.rows.data(), chunk.rows.size() * sizeof(float)}};
    return end_.send(parts);
  }
  // For all connections: nobody changes them.
  static std::vector<Buffer>& ready_made(TripSize size) {
    static std::vector<Buffer> replies = [&] {
      std::vector<Buffer> made(kBenchMinibatches, Buffer(size.reply_words));
      KnownRows rows;
      for (size_t m = 0; m < made.size(); ++m) rows.copy(m, 0, kBenchKeys, rows_of(made[m]).data());
      return made;
    }();
    return replies;
  }
  FrameHeader header(uint64_t correlation) const {
    return bare_header(ready_made_[0].size(), correlation, FrameHeader::kReply);
  }

  BlockingEnd& end_;
  KnownRows rows_;
  std::vector<Buffer>& ready_made_;
  const size_t before_rows_;
  Chunk chunk_;
  std::vector<iovec> parts_;
};

}  // namespace

std::unique_ptr<SocketClient> blocking_client(const std::string& kind, Socket socket, TripSize size) {
  if (kind == "mapped") return mapped_client(std::move(socket), size);
  return std::make_unique<BlockingClient>(std::move(socket), size);
}

void serve_blocking(const std::string& kind, Socket socket, TripSize size, const SocketSettings& settings) {
  BlockingEnd end(std::move(socket), size.request_words);
  if (kind == "mapped") return serve_mapped(end, settings.stores);
  BlockingServer server(end, size);
  if (kind == "chunked2") return server.chunked2(settings.chunk_bytes);
  for (FrameHeader h; end.receive(h);) {
    const bool sent = kind == "chunked"  ? server.chunked(h.correlation, settings.chunk_bytes)
                      : kind == "gather" ? server.gather(h.correlation)
                                         : server.blocking(h.correlation);
    if (!sent) return;
  }
}

}  // namespace embers
