#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace embers {

// What a link does to packets. Both directions have the same.
struct LinkSettings {
  enum class State : uint8_t {
    kUp,
    kStalled,  // packets wait until it is up again
    kCut,      // they are lost
  };
  State state = State::kUp;
  double bits_per_second = 1e9;
  std::chrono::duration<double> delay{0.0005};  // each way
  double loss = 0;                              // share of packets
};

// One direction of a link between two TUN devices: reads packets from one, and writes each to the other when
// it would have arrived. A sender that is faster than the link waits in its own device's queue, as at a
// network card. Runs until the process ends.
//
// *Thread safety*: set() and packets() from any thread.
class LinkWay {
 public:
  // Whatever a packet is cut into on a real wire, `kFrame` bytes at a time.
  static constexpr size_t kFrame = 1448, kFrameOverhead = 90;

  LinkWay(int from, int to, uint64_t seed);
  void set(const LinkSettings& settings);
  uint64_t packets() const;  // that it has read

 private:
  using Clock = std::chrono::steady_clock;
  using Buffer = std::unique_ptr<char[]>;
  struct Packet {
    Buffer bytes;
    size_t size;
    Clock::time_point arrives;
  };
  static constexpr size_t kMostWaiting = 64 << 20;  // bytes; more are lost

  [[noreturn]] void read();
  [[noreturn]] void write();
  Clock::time_point take(Buffer& bytes, size_t size);

  const int from_, to_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_.
  LinkSettings settings_;
  std::deque<Packet> under_way_;
  size_t bytes_ = 0;  // of these
  std::vector<Buffer> free_;
  uint64_t packets_ = 0;
  Clock::time_point sent_;  // when the last packet had left its sender
  std::mt19937_64 random_;
  std::thread reader_, writer_;
};

}  // namespace embers
