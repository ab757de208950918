#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace embers {

// A fixed number of threads, the caller's own among them, that work on ranges. Sleeps between calls; a call
// allocates nothing. *Thread safety*: one call at a time.
class WorkerThreads {
 public:
  // kInvalid below 1.
  explicit WorkerThreads(int threads);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  // work(begin, end) for ranges that make up [0, size), each at most `grain` long unless there is one thread;
  // returns when all are done. `work` must not throw.
  template <class Work>
  void split(int64_t size, int64_t grain, Work&& work) {
    if (helpers_.empty() || size <= grain) return work(int64_t{0}, size);
    run({size, grain, &work, [](void* w, int64_t begin, int64_t end) {
           (*static_cast<std::remove_reference_t<Work>*>(w))(begin, end);
         }});
  }

 private:
  struct Job {
    int64_t size = 0, grain = 1;
    void* work = nullptr;
    void (*call)(void* work, int64_t begin, int64_t end) = nullptr;
  };
  void run(const Job& job);
  void help();
  // Works on ranges until there is none left. `lock` holds mutex_.
  void take_ranges(std::unique_lock<std::mutex>& lock);

  std::vector<std::thread> helpers_;  // constant after construction
  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job job_;
  int64_t next_ = 0, working_ = 0;
  bool ends_ = false;
};

}  // namespace embers
