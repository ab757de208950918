#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "actors/shared_memory/mapping.h"
#include "bench/wire/blocking_end.h"
#include "bench/wire/known_rows.h"

namespace embers {
namespace {

constexpr size_t kFloats = kBenchKeys * kBenchDim;  // of a slot

// What a client says first: where its memory is.
struct Told {
  pid_t process;
  SharedFile file;
  size_t slots;
};

std::span<float> slot_of(const Mapping& memory, size_t slot) {
  return std::span(reinterpret_cast<float*>(memory.data()) + slot * kFloats, kFloats);
}

// A request gives a slot that was read back: its header has one more than its number.
class MappedClient final : public SocketClient {
 public:
  MappedClient(Socket socket, TripSize size)
      : end_(std::move(socket), 0),
        request_(size.request_words),
        outstanding_(size.outstanding),
        memory_(Mapping::make("embers-bench", size.outstanding * kFloats * sizeof(float))) {
    end_.buffer_all_requests();
    Told told{::getpid(), memory_->file(), size.outstanding};
    iovec part{&told, sizeof told};
    if (!end_.send({&part, 1})) broken_socket(std::strerror(errno));
  }
  double trips(size_t count) override {
    const auto begin = BenchClock::now();
    double sum = 0;
    for (size_t i = 0; i < count + outstanding_; ++i) {
      if (i >= outstanding_) sum += sum_of(receive());
      if (i < count) send(i);
    }
    sum_ = sum;
    return seconds_since(begin);
  }
  std::span<const float> fetch(size_t minibatch) override {
    send(minibatch);
    return receive();
  }

 private:
  void send(uint64_t correlation) {
    FrameHeader h = bare_header(request_.size(), correlation, 0);
    if (!read_.empty()) {
      h.reserved = read_.back() + 1;
      read_.pop_back();
    }
    iovec parts[] = {{&h, sizeof h}, {request_.data(), request_.size() * 8}};
    if (!end_.send(parts)) broken_socket(std::strerror(errno));
  }
  std::span<const float> receive() {
    FrameHeader h;
    if (!end_.receive(h)) broken_socket("closed");
    read_.push_back(h.reserved);
    const std::span<const float> rows = slot_of(*memory_, h.reserved);
    replies_.check(h.correlation, rows);
    return rows;
  }

  BlockingEnd end_;
  Buffer request_;
  const size_t outstanding_;
  const std::unique_ptr<Mapping> memory_;
  std::vector<uint32_t> read_;  // slots that requests will give back, one each
  const WireReplies replies_;
  volatile double sum_ = 0;  // so that all that is read is needed
};

}  // namespace

std::unique_ptr<SocketClient> mapped_client(Socket socket, TripSize size) {
  return std::make_unique<MappedClient>(std::move(socket), size);
}

// Takes the slot that was given back last: it is still in a cache.
void serve_mapped(BlockingEnd& end, Stores stores) {
  Told told;
  if (!end.receive(&told, sizeof told)) return;
  const std::unique_ptr<Mapping> memory = Mapping::open(told.process, told.file, true);
  std::vector<uint32_t> free;
  for (size_t slot = told.slots; slot-- > 0;) free.push_back(static_cast<uint32_t>(slot));
  KnownRows rows;
  for (FrameHeader h; end.receive(h);) {
    if (h.reserved > 0) free.push_back(h.reserved - 1);
    if (free.empty()) broken_socket("no slot is free");
    FrameHeader reply = bare_header(0, h.correlation, FrameHeader::kReply);
    reply.reserved = free.back();
    free.pop_back();
    rows.copy(h.correlation, 0, kBenchKeys, slot_of(*memory, reply.reserved).data(), stores);
    iovec part{&reply, sizeof reply};
    if (!end.send({&part, 1})) return;
  }
}

}  // namespace embers
