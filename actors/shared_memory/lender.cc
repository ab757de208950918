#include "actors/shared_memory/lender.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/errors.h"

namespace embers {
namespace {

int open_process(pid_t process) {
  const long descriptor = ::syscall(SYS_pidfd_open, process, 0U);
  if (descriptor < 0)
    fail(ErrorCode::kUnavailable, "cannot watch process {}: {}", process, std::strerror(errno));
  return static_cast<int>(descriptor);
}

}  // namespace

Lender::Lender(pid_t peer)
    : file_(Mapping::make("embers-slots", sizeof(LentSlots))), peer_(open_process(peer)) {
  for (uint32_t slot = kMostLent; slot > 0; --slot) free_.push_back(slot - 1);
}

Lender::~Lender() { ::close(peer_); }

std::optional<uint32_t> Lender::lend(std::shared_ptr<const void> message) {
  const MutexLock lock(mutex_);
  if (closed_ || free_.empty()) return std::nullopt;
  const uint32_t slot = free_.back();
  free_.pop_back();
  slots().lent[slot].store(1, std::memory_order_relaxed);  // the frame that tells of it comes after it
  lent_.push_back({slot, std::move(message)});
  return slot;
}

void Lender::collect(bool look) {
  std::vector<Lent> back;  // released when the lock is gone
  const bool all = slots().done.load(std::memory_order_acquire) != 0 || (look && peer_has_ended());
  const MutexLock lock(mutex_);
  if (lent_.empty()) return;
  const auto is_kept = [&](const Lent& lent) {
    return !all && slots().lent[lent.slot].load(std::memory_order_acquire) != 0;
  };
  const auto kept = std::stable_partition(lent_.begin(), lent_.end(), is_kept);
  std::move(kept, lent_.end(), std::back_inserter(back));
  lent_.erase(kept, lent_.end());
  for (const Lent& lent : back) free_.push_back(lent.slot);
}

bool Lender::is_done() const {
  const MutexLock lock(mutex_);
  return closed_ && lent_.empty();
}

bool Lender::peer_has_ended() const {
  pollfd process{peer_, POLLIN, 0};
  return ::poll(&process, 1, 0) > 0;
}

}  // namespace embers
