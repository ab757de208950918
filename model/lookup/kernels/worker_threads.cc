#include "model/lookup/kernels/worker_threads.h"

#include <algorithm>

#include "base/errors.h"

namespace embers {

WorkerThreads::WorkerThreads(int threads) {
  if (threads < 1) fail(ErrorCode::kInvalid, "a lookup cannot run on {} threads: give at least 1", threads);
  for (int i = 1; i < threads; ++i) helpers_.emplace_back([this] { help(); });
}

WorkerThreads::~WorkerThreads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void WorkerThreads::take_ranges(std::unique_lock<std::mutex>& lock) {
  while (next_ < job_.size) {
    const Job job = job_;
    const int64_t begin = next_, end = std::min(begin + job.grain, job.size);
    next_ = end;
    ++working_;
    lock.unlock();
    job.call(job.work, begin, end);
    lock.lock();
    --working_;
  }
}

void WorkerThreads::run(const Job& job) {
  std::unique_lock lock(mutex_);
  job_ = job;
  next_ = 0;
  wake_.notify_all();
  take_ranges(lock);
  done_.wait(lock, [&] { return working_ == 0; });
}

void WorkerThreads::help() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    take_ranges(lock);
    if (working_ == 0) done_.notify_one();
    wake_.wait(lock, [&] { return ends_ || next_ < job_.size; });
  }
}

}  // namespace embers
