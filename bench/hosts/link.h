#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
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
// it has arrived. A sender that is faster than the link waits in its own device's queue, as at a network
// card.
//
// *Thread safety*: none.
class LinkWay {
 public:
  using Clock = std::chrono::steady_clock;
  // Whatever a packet is cut into on a real wire, `kFrame` bytes at a time.
  static constexpr size_t kFrame = 1448, kFrameOverhead = 90;

  LinkWay(int from, int to, uint64_t seed);
  void set(const LinkSettings& settings);
  uint64_t packets() const { return packets_; }  // that it has read

  // Writes what has arrived by now; reads what has been sent, as fast as the link may. Both return how many
  // bytes.
  size_t write(Clock::time_point now);
  size_t read(Clock::time_point now);
  // What comes next: a packet to be read from there (-1: not now), and the next moment for write() or read().
  int awaited(Clock::time_point now) const { return now < reads_again_ ? -1 : from_; }
  std::optional<Clock::time_point> next(Clock::time_point now) const;
  // There is nothing to be read, although poll() says so: the device is down.
  void pause(Clock::time_point now);

 private:
  using Buffer = std::unique_ptr<char[]>;
  struct Packet {
    Buffer bytes;
    size_t size;
    Clock::time_point arrives;
  };
  static constexpr size_t kMostWaiting = 64 << 20;  // bytes; more are lost

  void take(Buffer& bytes, size_t size, Clock::time_point now);

  const int from_, to_;
  LinkSettings settings_;
  std::deque<Packet> under_way_;
  size_t bytes_ = 0;  // of these
  std::vector<Buffer> free_;
  uint64_t packets_ = 0;
  Clock::time_point sent_, reads_again_;  // sent_: when the last packet had left its sender
  std::mt19937_64 random_;
};

// Both directions. One thread moves all packets: it shares the machine with what it measures, so it wakes up
// as seldom as it can. Runs until the process ends.
//
// *Thread safety*: all members from any thread.
class Link {
 public:
  Link(int device0, int device1);
  void set(const LinkSettings& settings);
  uint64_t packets() const;

 private:
  [[noreturn]] void run();
  size_t move(LinkWay::Clock::time_point now, LinkWay::Clock::duration pause);
  void wait();

  const int woken_;  // an eventfd: other settings
  mutable std::mutex mutex_;
  std::array<LinkWay, 2> ways_;  // under mutex_
  std::thread thread_;
};

}  // namespace embers
