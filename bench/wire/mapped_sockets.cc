#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "actors/shared_memory/mapping.h"
#include "bench/wire/blocking_end.h"
#include "bench/wire/known_rows.h"

namespace embers {
namespace {

// What a client says first: where its memory is.
struct Told {
  SharedFile file;
  int64_t process = 0;
};

// Memory of the client's making: a flag for each slot, and the slots.
class Slots {
 public:
  explicit Slots(std::unique_ptr<Mapping> memory) : memory_(std::move(memory)) {}
  static size_t bytes(size_t slots) { return kFlagBytes + slots * kSlotBytes; }

  const Mapping& memory() const { return *memory_; }
  // The server's: the first one that is free. So it uses as few as it can, which are still in a cache.
  uint32_t take() {
    const size_t slots = (memory_->size() - kFlagBytes) / kSlotBytes;
    for (uint32_t slot = 0; slot < slots; ++slot)
      if (taken(slot).exchange(1, std::memory_order_acquire) == 0) return slot;
    broken_socket("no slot is free");
  }
  // The client's, once it has read it.
  void give_back(uint32_t slot) { taken(slot).store(0, std::memory_order_release); }
  std::span<float> operator[](uint32_t slot) {
    return {reinterpret_cast<float*>(memory_->data() + kFlagBytes + slot * kSlotBytes),
            kSlotBytes / sizeof(float)};
  }

 private:
  static constexpr size_t kFlagBytes = 4096, kSlotBytes = kBenchKeys * kBenchDim * sizeof(float);
  std::atomic_ref<uint32_t> taken(uint32_t slot) {
    return std::atomic_ref(*reinterpret_cast<uint32_t*>(memory_->data() + slot * size_t{64}));
  }

  std::unique_ptr<Mapping> memory_;
};

class MappedClient final : public SocketClient {
 public:
  MappedClient(Socket socket, TripSize size)
      : end_(std::move(socket), 0),
        request_(size.request_words),
        outstanding_(size.outstanding),
        slots_(Mapping::make("embers-bench", Slots::bytes(size.outstanding))) {
    end_.buffer_all_requests();
    Told told;
    told.file = slots_.memory().file();
    told.process = ::getpid();
    iovec part{&told, sizeof told};
    std::byte answer;
    if (!end_.send({&part, 1}) || !end_.receive(&answer, 1)) broken_socket(std::strerror(errno));
  }
  double trips(size_t count) override {
    const auto begin = BenchClock::now();
    double sum = 0;
    for (size_t i = 0; i < count + outstanding_; ++i) {
      if (i >= outstanding_) {
        const uint32_t slot = receive();
        sum += sum_of(slots_[slot]);
        slots_.give_back(slot);
      }
      if (i < count) send(i);
    }
    sum_ = sum;
    return seconds_since(begin);
  }
  std::span<const float> fetch(size_t minibatch) override {
    send(minibatch);
    const uint32_t slot = receive();
    slots_.give_back(slot);
    return slots_[slot];
  }

 private:
  void send(uint64_t correlation) {
    FrameHeader h = bare_header(request_.size(), correlation, 0);
    iovec parts[] = {{&h, sizeof h}, {request_.data(), request_.size() * 8}};
    if (!end_.send(parts)) broken_socket(std::strerror(errno));
  }
  // The slot of a reply.
  uint32_t receive() {
    FrameHeader h;
    if (!end_.receive(h)) broken_socket("closed");
    replies_.check(h.correlation, slots_[h.reserved]);
    return h.reserved;
  }

  BlockingEnd end_;
  std::vector<uint64_t> request_;
  const size_t outstanding_;
  Slots slots_;
  const WireReplies replies_;
  volatile double sum_ = 0;  // so that all that is read is needed
};

}  // namespace

std::unique_ptr<SocketClient> mapped_client(Socket socket, TripSize size) {
  return std::make_unique<MappedClient>(std::move(socket), size);
}

void serve_mapped(BlockingEnd& end, Stores stores) {
  Told told;
  if (!end.receive(&told, sizeof told)) return;
  Slots slots(Mapping::open(static_cast<pid_t>(told.process), told.file, true));
  std::byte answer{};
  iovec opened{&answer, 1};
  if (!end.send({&opened, 1})) return;
  KnownRows rows;
  for (FrameHeader h; end.receive(h);) {
    FrameHeader reply = bare_header(0, h.correlation, FrameHeader::kReply);
    reply.reserved = slots.take();
    rows.copy(h.correlation, slots[reply.reserved].data(), stores);
    iovec part{&reply, sizeof reply};
    if (!end.send({&part, 1})) return;
  }
}

}  // namespace embers
