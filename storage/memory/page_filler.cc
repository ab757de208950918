#include "storage/memory/page_filler.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>

#include "storage/memory/pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace embers::storage {
namespace {

using CpuMask = std::array<cpu_set_t, 8>;  // as many CPUs as a kernel can be built for

bool get_mask_of_process(CpuMask& mask) { return sched_getaffinity(getpid(), sizeof mask, mask.data()) == 0; }

// The thread that starts this one may be a shard's, bound to a CPU: the shard must not be held up, least of
// all by the pages of others. The process's first thread is not bound to a CPU, so this one gets the same
// CPUs. If that fails, it stays where it is.
void run_anywhere() {
  pthread_setname_np(pthread_self(), "embers pages");
  CpuMask mask{};
  if (get_mask_of_process(mask)) sched_setaffinity(0, sizeof mask, mask.data());
}

using Clock = std::chrono::steady_clock;
constexpr auto kRest = std::chrono::milliseconds(10);          // after each page,
constexpr auto kThereAlready = std::chrono::microseconds(50);  // unless it took less than this

std::atomic<int> pauses = 0;

// On a single CPU, this thread would only take it from the one that needs the pages.
bool has_one_cpu() {
  CpuMask mask{};
  return get_mask_of_process(mask) && CPU_COUNT_S(sizeof mask, mask.data()) == 1;
}

}  // namespace

PageFiller::Pause::Pause() { ++pauses; }

PageFiller::Pause::~Pause() {
  if (--pauses == 0) pauses.notify_all();
}

PageFiller::~PageFiller() {
  {
    const MutexLock lock(mutex_);
    over_ = true;
    asked_.notify_all();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void PageFiller::fill(std::byte* data, size_t bytes) {
  if (bytes == 0 || has_one_cpu()) return;
  const MutexLock lock(mutex_);
  if (cannot_ || over_) return;
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    ranges_.push_back({data, bytes});
  } catch (const std::exception&) {  // no thread, or no memory for the list
    cannot_ = true;
  }
  asked_.notify_all();
}

void PageFiller::leave(const std::byte* data, size_t bytes) {
  const MutexLock lock(mutex_);
  std::erase_if(ranges_, [&](const Range& r) { return r.overlaps(data, bytes); });
}

void PageFiller::forget(const std::byte* data, size_t bytes) {
  leave(data, bytes);
  MutexLock lock(mutex_);
  while (at_hand_.overlaps(data, bytes)) lock.wait(changed_);
}

void PageFiller::run() {
  run_anywhere();
  MutexLock lock(mutex_);
  for (;;) {
    while (!over_ && ranges_.empty()) lock.wait(asked_);
    if (over_) return;
    if (const int now = pauses; now > 0) {
      lock.unlock();
      pauses.wait(now);
      lock.lock();
      continue;
    }
    // One page of each range in turn, the one that will be needed last: who needs the first ones is often
    // about to make them itself.
    Range next = ranges_.front();
    ranges_.erase(ranges_.begin());
    const size_t piece = std::min(next.bytes, kHugePage);
    next.bytes -= piece;
    const Range mine = at_hand_ = {next.data + next.bytes, piece};
    if (next.bytes != 0) ranges_.push_back(next);
    lock.unlock();
    const auto begin = Clock::now();
    const bool filled = madvise(mine.data, mine.bytes, MADV_POPULATE_WRITE) == 0;
    const auto end = Clock::now();
    lock.lock();
    at_hand_ = {nullptr, 0};
    if (!filled) {
      cannot_ = true;
      ranges_.clear();
    }
    changed_.notify_all();
    if (end - begin < kThereAlready) continue;
    // Nobody who asks wakes it up meanwhile.
    while (!over_ && Clock::now() < end + kRest) lock.wait_until(changed_, end + kRest);
  }
}

}  // namespace embers::storage
