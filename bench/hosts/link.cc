#include "bench/hosts/link.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "bench/hosts/host.h"

namespace embers {
namespace {

constexpr size_t kLongest = 65536 + Host::kHeaderBytes;
// A sender may be this far ahead of the link before it is made to wait: longer than a sleep may last too
// long.
constexpr auto kAhead = std::chrono::microseconds(1500);

constexpr size_t kMostFree = 64;  // buffers

void sleep_precisely() { ::prctl(PR_SET_TIMERSLACK, 1); }

}  // namespace

LinkWay::LinkWay(int from, int to, uint64_t seed) : from_(from), to_(to), random_(seed) {
  reader_ = std::thread([this] { read(); });
  writer_ = std::thread([this] { write(); });
}

void LinkWay::set(const LinkSettings& settings) {
  const std::lock_guard lock(mutex_);
  settings_ = settings;
  if (settings.state == LinkSettings::State::kCut) {
    under_way_.clear();
    bytes_ = 0;
  }
  changed_.notify_all();
}

uint64_t LinkWay::packets() const {
  const std::lock_guard lock(mutex_);
  return packets_;
}

void LinkWay::read() {
  sleep_precisely();
  Buffer buffer;
  for (;;) {
    if (!buffer) buffer.reset(new char[kLongest]);
    const ssize_t n = ::read(from_, buffer.get(), kLongest);
    if (n <= 0) {  // the device is down
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    const auto sent = take(buffer, static_cast<size_t>(n));
    if (sent - Clock::now() > kAhead) std::this_thread::sleep_until(sent - kAhead / 3);
  }
}

// Leaves another buffer, or none. Returns when the packet has left its sender.
LinkWay::Clock::time_point LinkWay::take(Buffer& bytes, size_t size) {
  const std::lock_guard lock(mutex_);
  ++packets_;
  const auto now = Clock::now();
  const bool is_lost = settings_.loss > 0 && std::uniform_real_distribution<>()(random_) < settings_.loss;
  if (settings_.state == LinkSettings::State::kCut || is_lost || bytes_ > kMostWaiting) return now;
  const size_t frames = size / kFrame + 1;
  const std::chrono::duration<double> takes(8.0 * static_cast<double>(size + frames * kFrameOverhead) /
                                            settings_.bits_per_second);
  sent_ = std::max(sent_, now) + std::chrono::duration_cast<Clock::duration>(takes);
  bytes_ += size;
  under_way_.push_back(
      {std::move(bytes), size, sent_ + std::chrono::duration_cast<Clock::duration>(settings_.delay)});
  if (!free_.empty()) {
    bytes = std::move(free_.back());
    free_.pop_back();
  }
  if (under_way_.size() == 1) changed_.notify_all();
  return sent_;
}

void LinkWay::write() {
  sleep_precisely();
  std::unique_lock lock(mutex_);
  for (;;) {
    if (under_way_.empty() || settings_.state == LinkSettings::State::kStalled) {
      changed_.wait(lock);
    } else if (const auto arrives = under_way_.front().arrives; arrives > Clock::now()) {
      changed_.wait_until(lock, arrives);
    } else {
      Packet packet = std::move(under_way_.front());
      under_way_.pop_front();
      bytes_ -= packet.size;
      lock.unlock();
      // Lost where the device is down, as on a wire without a host at its end.
      [[maybe_unused]] const ssize_t written = ::write(to_, packet.bytes.get(), packet.size);
      lock.lock();
      if (free_.size() < kMostFree) free_.push_back(std::move(packet.bytes));
    }
  }
}

}  // namespace embers
