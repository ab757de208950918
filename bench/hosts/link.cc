#include "bench/hosts/link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "bench/hosts/host.h"

namespace embers {
namespace {

using Clock = LinkWay::Clock;
using std::chrono::microseconds;

constexpr size_t kLongest = 65536 + Host::kHeaderBytes;
// A sender may be this far ahead of the link before it is made to wait: longer than a sleep may last too
// long.
constexpr auto kAhead = microseconds(1500);
// Under load, packets are moved at most so often, as by network cards that moderate their interrupts (4000 a
// second in the bulk mode of some). Bulk is what makes load.
constexpr auto kModeration = microseconds(250);
constexpr size_t kBulk = 16 << 10;  // bytes at a time

constexpr size_t kMostFree = 64;  // buffers

void sleep(Clock::duration time) {
  const timespec t{0, std::chrono::nanoseconds(time).count()};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
}

}  // namespace

LinkWay::LinkWay(int from, int to, uint64_t seed) : from_(from), to_(to), random_(seed) {
  ::fcntl(from_, F_SETFL, ::fcntl(from_, F_GETFL) | O_NONBLOCK);
}

void LinkWay::set(const LinkSettings& settings) {
  settings_ = settings;
  if (settings.state != LinkSettings::State::kCut) return;
  under_way_.clear();
  bytes_ = 0;
}

size_t LinkWay::read(Clock::time_point now) {
  size_t bytes = 0;
  for (Buffer buffer; now >= reads_again_;) {
    if (!buffer && !free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
    if (!buffer) buffer.reset(new char[kLongest]);
    const ssize_t n = ::read(from_, buffer.get(), kLongest);
    if (n <= 0) {
      if (errno != EAGAIN && errno != EINTR) pause(now);
      if (free_.size() < kMostFree) free_.push_back(std::move(buffer));
      break;
    }
    take(buffer, static_cast<size_t>(n), now);
    bytes += static_cast<size_t>(n);
    if (sent_ - now > kAhead) reads_again_ = sent_ - kAhead / 3;
  }
  return bytes;
}

void LinkWay::pause(Clock::time_point now) { reads_again_ = now + std::chrono::milliseconds(5); }

// Leaves the buffer of a packet that is lost.
void LinkWay::take(Buffer& bytes, size_t size, Clock::time_point now) {
  ++packets_;
  const bool is_lost = settings_.loss > 0 && std::uniform_real_distribution<>()(random_) < settings_.loss;
  if (settings_.state == LinkSettings::State::kCut || is_lost || bytes_ > kMostWaiting) return;
  const size_t frames = size / kFrame + 1;
  const std::chrono::duration<double> takes(8.0 * static_cast<double>(size + frames * kFrameOverhead) /
                                            settings_.bits_per_second);
  sent_ = std::max(sent_, now) + std::chrono::duration_cast<Clock::duration>(takes);
  bytes_ += size;
  under_way_.push_back(
      {std::move(bytes), size, sent_ + std::chrono::duration_cast<Clock::duration>(settings_.delay)});
}

size_t LinkWay::write(Clock::time_point now) {
  if (settings_.state == LinkSettings::State::kStalled) return 0;
  size_t bytes = 0;
  for (; !under_way_.empty() && under_way_.front().arrives <= now; under_way_.pop_front()) {
    Packet& packet = under_way_.front();
    // Lost where the device is down, as on a wire without a host at its end.
    [[maybe_unused]] const ssize_t written = ::write(to_, packet.bytes.get(), packet.size);
    bytes += packet.size;
    if (free_.size() < kMostFree) free_.push_back(std::move(packet.bytes));
  }
  bytes_ -= bytes;
  return bytes;
}

std::optional<Clock::time_point> LinkWay::next(Clock::time_point now) const {
  std::optional<Clock::time_point> next;
  if (reads_again_ > now) next = reads_again_;
  if (!under_way_.empty() && settings_.state != LinkSettings::State::kStalled)
    next = std::min(next.value_or(under_way_.front().arrives), under_way_.front().arrives);
  return next;
}

Link::Link(int device0, int device1)
    : woken_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      ways_{LinkWay(device0, device1, 1), LinkWay(device1, device0, 2)},
      thread_([this] { run(); }) {}

void Link::set(const LinkSettings& settings) {
  const std::lock_guard lock(mutex_);
  for (LinkWay& way : ways_) way.set(settings);
  ::eventfd_write(woken_, 1);
}

uint64_t Link::packets() const {
  const std::lock_guard lock(mutex_);
  return ways_[0].packets() + ways_[1].packets();
}

void Link::run() {
  ::prctl(PR_SET_TIMERSLACK, 1);
  for (Clock::duration pause{};;) {
    if (move(Clock::now(), pause) >= kBulk) {
      pause = kModeration;
      sleep(pause);
    } else {
      pause = {};
      wait();
    }
  }
}

// What arrives is answered at once, so it comes before what is read. After a pause, what is read was sent in
// its middle, on average, and what arrives until the middle of the next one is written now: so pauses make no
// packet later on average, and cost the link nothing of its rate.
size_t Link::move(Clock::time_point now, Clock::duration pause) {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (LinkWay& way : ways_) bytes += way.write(now + pause / 2);
  for (LinkWay& way : ways_) bytes += way.read(now - pause / 2);
  return bytes;
}

void Link::wait() {
  std::array<pollfd, 3> events;
  std::optional<Clock::time_point> next;
  const Clock::time_point now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < 2; ++i) {
      events[i] = {ways_[i].awaited(now), POLLIN, 0};
      if (const auto of_way = ways_[i].next(now)) next = std::min(next.value_or(*of_way), *of_way);
    }
  }
  events[2] = {woken_, POLLIN, 0};
  timespec time{};
  if (next) {
    const auto left = std::chrono::nanoseconds(std::max(*next - now, Clock::duration::zero())).count();
    time = {left / 1'000'000'000, left % 1'000'000'000};
  }
  if (::ppoll(events.data(), events.size(), next ? &time : nullptr, nullptr) <= 0) return;
  eventfd_t ignored;
  if (events[2].revents != 0) ::eventfd_read(woken_, &ignored);
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < 2; ++i)
    if ((events[i].revents & ~POLLIN) != 0) ways_[i].pause(now);
}

}  // namespace embers
