#include "bench/hosts/network.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "bench/hosts/host.h"

namespace embers {
namespace {

using Clock = Switch::Clock;
using std::chrono::microseconds;

constexpr size_t kLongest = 65536 + Host::kHeaderBytes;
// A sender may be this far ahead of its card before it is made to wait, until it is two thirds of this ahead:
// longer than this process has to wait for a core that the job uses, since its cards are idle where it is
// not.
constexpr auto kAhead = microseconds(8000);
// Under load, packets are moved at most so often, as by network cards that moderate their interrupts (4000 a
// second in the bulk mode of some). Bulk is what makes load. A network of short delays waits less.
constexpr Clock::duration kModeration = microseconds(250);
constexpr size_t kBulk = 16 << 10;  // bytes at a time

constexpr size_t kFrame = 1448,
                 kFrameOverhead = 90;  // bytes of a packet, and of headers and gaps around them
constexpr size_t kMostFree = 64;       // buffers

void sleep(Clock::duration time) {
  const timespec t{0, std::chrono::nanoseconds(time).count()};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
}

Clock::duration ticks(std::chrono::duration<double> time) {
  return std::chrono::duration_cast<Clock::duration>(time);
}

}  // namespace

Switch::Switch(std::span<const int> devices) : ports_(devices.size()) {
  for (size_t i = 0; i < devices.size(); ++i) {
    ports_[i].device = devices[i];
    ports_[i].waiting.resize(devices.size());
    ::fcntl(devices[i], F_SETFL, ::fcntl(devices[i], F_GETFL) | O_NONBLOCK);
  }
}

void Switch::set(const NetworkSettings& settings) {
  settings_ = settings;
  if (settings.state != NetworkSettings::State::kCut) return;
  for (Port& port : ports_) {
    for (auto& packets : port.waiting) packets.clear();
    port.bytes = 0;
    port.coming.clear();
    port.leaving.clear();
  }
  bytes_ = 0;
}

size_t Switch::read(Clock::time_point now) {
  size_t bytes = 0;
  for (Port& port : ports_) bytes += read(port, now);
  return bytes;
}

size_t Switch::read(Port& port, Clock::time_point now) {
  size_t bytes = 0;
  for (Buffer buffer; now >= port.reads_again;) {
    if (!buffer && !free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
    if (!buffer) buffer.reset(new char[kLongest]);
    const ssize_t n = ::read(port.device, buffer.get(), kLongest);
    if (n <= 0) {
      if (errno != EAGAIN && errno != EINTR) pause(static_cast<size_t>(&port - ports_.data()), now);
      if (free_.size() < kMostFree) free_.push_back(std::move(buffer));
      break;
    }
    take(port, buffer, static_cast<size_t>(n), now);
    bytes += static_cast<size_t>(n);
    const Clock::time_point all_sent = port.sent + time_on_wire(port.bytes, port.bytes / kFrame);
    if (all_sent - now > kAhead) port.reads_again = all_sent - 2 * kAhead / 3;
  }
  return bytes;
}

void Switch::pause(size_t host, Clock::time_point now) {
  ports_[host].reads_again = now + std::chrono::milliseconds(5);
}

Clock::duration Switch::time_on_wire(size_t bytes, size_t frames) const {
  const auto all = static_cast<double>(bytes + frames * kFrameOverhead);
  return ticks(std::chrono::duration<double>(8 * all / settings_.bits_per_second));
}

// Leaves the buffer of a packet that is lost.
void Switch::take(Port& port, Buffer& bytes, size_t size, Clock::time_point now) {
  ++packets_;
  const bool is_lost = settings_.loss > 0 && std::uniform_real_distribution<>()(random_) < settings_.loss;
  const std::optional<int> to = Host::receiver({bytes.get(), size});
  if (settings_.state == NetworkSettings::State::kCut || is_lost || bytes_ > kMostWaiting || !to ||
      static_cast<size_t>(*to) >= ports_.size())
    return;
  if (port.bytes == 0) port.sent = std::max(port.sent, now);
  port.bytes += size;
  bytes_ += size;
  port.waiting[static_cast<size_t>(*to)].push_back({{std::move(bytes), size}, 0});
}

// Frames that its card begins to send by now.
void Switch::send(Port& port, Clock::time_point now) {
  while (port.bytes > 0 && port.sent <= now) {
    while (port.waiting[port.turn].empty()) port.turn = (port.turn + 1) % ports_.size();
    auto& packets = port.waiting[port.turn];
    Waiting& next = packets.front();
    const size_t size = std::min(kFrame, next.packet.size - next.sent);
    next.sent += size;
    port.bytes -= size;
    port.sent += time_on_wire(size, 1);
    Frame& frame = port.coming.emplace_back(Frame{size, port.turn, {}, port.sent + ticks(settings_.delay)});
    if (next.sent == next.packet.size) {
      frame.packet = std::move(next.packet);
      packets.pop_front();
    }
    port.turn = (port.turn + 1) % ports_.size();
  }
}

// Frames that have come to their receivers' cards by now, in the order in which they came.
void Switch::forward(Clock::time_point now) {
  for (Port& port : ports_) send(port, now);
  for (;;) {
    Port* first = nullptr;
    for (Port& port : ports_)
      if (!port.coming.empty() && port.coming.front().at <= now &&
          (first == nullptr || port.coming.front().at < first->coming.front().at))
        first = &port;
    if (first == nullptr) return;
    Frame& frame = first->coming.front();
    Port& to = ports_[frame.to];
    to.taken_in = std::max(to.taken_in + time_on_wire(frame.size, 1), frame.at);
    if (frame.packet.bytes) to.leaving.push_back({std::move(frame.packet), to.taken_in});
    first->coming.pop_front();
  }
}

size_t Switch::write(Clock::time_point now) {
  if (settings_.state == NetworkSettings::State::kStalled) return 0;
  forward(now);
  size_t bytes = 0;
  for (Port& port : ports_)
    for (; !port.leaving.empty() && port.leaving.front().at <= now; port.leaving.pop_front()) {
      Packet& packet = port.leaving.front().packet;
      // Lost where the device is down, as on a wire without a host at its end.
      [[maybe_unused]] const ssize_t written = ::write(port.device, packet.bytes.get(), packet.size);
      bytes += packet.size;
      if (free_.size() < kMostFree) free_.push_back(std::move(packet.bytes));
    }
  bytes_ -= bytes;
  return bytes;
}

int Switch::awaited(size_t host, Clock::time_point now) const {
  return now < ports_[host].reads_again ? -1 : ports_[host].device;
}

std::optional<Clock::time_point> Switch::next(Clock::time_point now) const {
  std::optional<Clock::time_point> next;
  const auto at_most = [&](Clock::time_point moment) { next = std::min(next.value_or(moment), moment); };
  for (const Port& port : ports_) {
    if (port.reads_again > now) at_most(port.reads_again);
    if (settings_.state == NetworkSettings::State::kStalled) continue;
    if (!port.leaving.empty()) at_most(port.leaving.front().at);
    const auto last = std::find_if(port.coming.begin(), port.coming.end(),
                                   [](const Frame& frame) { return frame.packet.bytes != nullptr; });
    if (last != port.coming.end()) at_most(last->at);
    for (const auto& packets : port.waiting)  // if it had the card for itself
      if (!packets.empty()) {
        const size_t left = packets.front().packet.size - packets.front().sent;
        at_most(port.sent + time_on_wire(left, (left + kFrame - 1) / kFrame) + ticks(settings_.delay));
      }
  }
  return next;
}

Network::Network(std::span<const int> devices)
    : woken_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), switch_(devices), thread_([this] { run(); }) {}

void Network::set(const NetworkSettings& settings) {
  const std::lock_guard lock(mutex_);
  switch_.set(settings);
  ::eventfd_write(woken_, 1);
}

uint64_t Network::packets() const {
  const std::lock_guard lock(mutex_);
  return switch_.packets();
}

void Network::run() {
  ::prctl(PR_SET_TIMERSLACK, 1);
  for (Clock::duration pause{};;) {
    if (move(Clock::now(), pause) >= kBulk) {
      pause = moderation();
      sleep(pause);
    } else {
      pause = {};
      wait();
    }
  }
}

Clock::duration Network::moderation() const {
  const std::lock_guard lock(mutex_);
  return std::min(kModeration, ticks(switch_.delay() / 2));
}

// What arrives is answered at once, so it comes before what is read. After a pause, what is read was sent in
// its middle, on average, and what arrives until the middle of the next one is written now: so pauses make no
// packet later on average, and cost the cards nothing of their rate.
size_t Network::move(Clock::time_point now, Clock::duration pause) {
  const std::lock_guard lock(mutex_);
  const size_t written = switch_.write(now + pause / 2);
  return written + switch_.read(now - pause / 2);
}

void Network::wait() {
  std::vector<pollfd> events;
  std::optional<Clock::time_point> next;
  const Clock::time_point now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < switch_.hosts(); ++i) events.push_back({switch_.awaited(i, now), POLLIN, 0});
    next = switch_.next(now);
  }
  events.push_back({woken_, POLLIN, 0});
  timespec time{};
  if (next) {
    const auto left = std::chrono::nanoseconds(std::max(*next - now, Clock::duration::zero())).count();
    time = {left / 1'000'000'000, left % 1'000'000'000};
  }
  if (::ppoll(events.data(), events.size(), next ? &time : nullptr, nullptr) <= 0) return;
  eventfd_t ignored;
  if (events.back().revents != 0) ::eventfd_read(woken_, &ignored);
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < switch_.hosts(); ++i)
    if ((events[i].revents & ~POLLIN) != 0) switch_.pause(i, now);
}

}  // namespace embers
