#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace embers {

// What a network does to packets. All hosts have the same.
struct NetworkSettings {
  enum class State : uint8_t {
    kUp,
    kStalled,  // packets wait until it is up again
    kCut,      // they are lost
  };
  State state = State::kUp;
  double bits_per_second = 1e9;                 // of each host's card, each way
  std::chrono::duration<double> delay{0.0005};  // from host to host
  double loss = 0;                              // share of packets
};

// A switch, and the TUN devices of hosts as their network cards. It moves packets to the host of their
// address, as a wire would that carries them frame by frame:
//
//   device ──read──► waiting ──card's rate──► coming, for the delay ──card's rate──► leaving ──write──►
//   device
//                    └─ at its sender's card ─┘                   └─ at its receiver's ─┘
//
// A card sends one frame after another, those for different hosts in turns, as the fair queues of Linux do. A
// receiver's card takes in frames from all hosts in the order in which they come; what comes faster waits in
// the switch. A packet is there when its last frame is. So two hosts have a link of that rate and delay
// between them.
//
// A sender that is faster than its card waits in its own device's queue.
//
// *Thread safety*: none.
class Switch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Switch(std::span<const int> devices);  // that of host N is the Nth
  void set(const NetworkSettings& settings);
  std::chrono::duration<double> delay() const { return settings_.delay; }
  uint64_t packets() const { return packets_; }  // that it has read
  size_t hosts() const { return ports_.size(); }

  // Writes what has arrived by now; reads what has been sent, as fast as the cards may. Both return how many
  // bytes.
  size_t write(Clock::time_point now);
  size_t read(Clock::time_point now);
  // What comes next: a packet to be read from this device (-1: not now), and a moment for write() or read()
  // before which neither has anything to do.
  int awaited(size_t host, Clock::time_point now) const;
  std::optional<Clock::time_point> next(Clock::time_point now) const;
  // There is nothing to be read from this host, although poll() says so: its device is down.
  void pause(size_t host, Clock::time_point now);

 private:
  using Buffer = std::unique_ptr<char[]>;
  struct Packet {
    Buffer bytes;
    size_t size;
  };
  struct Frame {
    size_t size, to;
    Packet packet;         // with the last one of a packet
    Clock::time_point at;  // its receiver's card
  };
  struct Waiting {
    Packet packet;
    size_t sent;  // bytes of it
  };
  struct Leaving {
    Packet packet;
    Clock::time_point at;  // when its last frame is taken in
  };
  struct Port {
    int device;
    std::vector<std::deque<Waiting>> waiting;  // by receiver
    size_t bytes = 0, turn = 0;                // waiting; whose next frame is the next
    std::deque<Frame> coming;                  // from this host
    std::deque<Leaving> leaving;               // to this host
    Clock::time_point sent, taken_in;          // when its card had sent, and taken in, the last frame
    Clock::time_point reads_again;
  };
  static constexpr size_t kMostWaiting = 64 << 20;  // bytes; more are lost

  size_t read(Port& port, Clock::time_point now);
  void take(Port& port, Buffer& bytes, size_t size, Clock::time_point now);
  void send(Port& port, Clock::time_point now);
  void forward(Clock::time_point now);
  Clock::duration time_on_wire(size_t bytes, size_t frames) const;

  NetworkSettings settings_;
  std::vector<Port> ports_;
  size_t bytes_ = 0;  // under way
  std::vector<Buffer> free_;
  uint64_t packets_ = 0;
  std::mt19937_64 random_{1};
};

// A switch at work. One thread moves all packets: it shares the machine with what it measures, so it wakes up
// as seldom as it can. Runs until the process ends.
//
// *Thread safety*: all members from any thread.
class Network {
 public:
  explicit Network(std::span<const int> devices);
  void set(const NetworkSettings& settings);
  uint64_t packets() const;

 private:
  [[noreturn]] void run();
  size_t move(Switch::Clock::time_point now, Switch::Clock::duration pause);
  Switch::Clock::duration moderation() const;
  void wait();

  const int woken_;  // an eventfd: other settings
  mutable std::mutex mutex_;
  Switch switch_;  // under mutex_
  std::thread thread_;
};

}  // namespace embers
