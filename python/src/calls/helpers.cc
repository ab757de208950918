#include "python/src/calls/helpers.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/forks.h"

namespace embers::python {
namespace {

struct Helper {
  std::mutex mutex;
  std::condition_variable given;
  std::function<void()> work;
};

// Those that wait for work. Never destroyed: threads use it until the process has gone.
struct Helpers {
  const uint64_t generation = fork_generation();
  std::mutex mutex;
  std::vector<Helper*> idle;
};

// Of this process: a child of the one that made them has none of its threads. Called with the GIL.
Helpers& helpers() {
  static Helpers* mine = new Helpers;
  if (mine->generation != fork_generation()) mine = new Helpers;
  return *mine;
}

void live(Helpers& all, Helper* me) {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(me->mutex);
      me->given.wait(lock, [me] { return me->work != nullptr; });
      work = std::exchange(me->work, nullptr);
    }
    work();
    work = nullptr;
    const std::lock_guard lock(all.mutex);
    all.idle.push_back(me);
  }
}

}  // namespace

void run_in_helper(std::function<void()> work) {
  Helpers& all = helpers();
  Helper* helper = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    if (!all.idle.empty()) {
      helper = all.idle.back();
      all.idle.pop_back();
    }
  }
  if (helper == nullptr) {
    helper = new Helper;
    std::thread([&all, helper] { live(all, helper); }).detach();
  }
  const std::lock_guard lock(helper->mutex);
  helper->work = std::move(work);
  helper->given.notify_one();
}

}  // namespace embers::python
