#include "apps/top/poller.h"

#include <condition_variable>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace embers {

struct Poller::State {
  State(client::AdminOptions options, Interval interval, std::function<void(Answer)> give)
      : options(std::move(options)), interval(interval), give(std::move(give)) {}

  // Constant after construction.
  const client::AdminOptions options;
  const Interval interval;

  Mutex mutex;
  std::condition_variable changed;
  std::function<void(Answer)> give ABSL_GUARDED_BY(mutex);
  bool stop ABSL_GUARDED_BY(mutex) = false;
};

Poller::Poller(client::AdminOptions options, Interval interval, std::function<void(Answer)> give)
    : state_(std::make_shared<State>(std::move(options), interval, std::move(give))) {
  std::thread(run, state_).detach();
}

Poller::~Poller() {
  const MutexLock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
}

void Poller::run(const std::shared_ptr<State>& state) {
  State& s = *state;
  std::optional<client::Admin> admin;
  const auto ask = [&]() -> Answer {
    try {
      if (!admin) admin.emplace(s.options);
      return admin->status();
    } catch (const Error& e) {
      return e;
    } catch (const std::exception& e) {
      return Error(ErrorCode::kInternal, e.what());
    }
  };
  while (true) {
    const auto next = std::chrono::steady_clock::now() +
                      std::chrono::duration_cast<std::chrono::steady_clock::duration>(s.interval);
    Answer answer = ask();
    MutexLock lock(s.mutex);
    if (s.stop) return;
    s.give(std::move(answer));
    while (!s.stop && std::chrono::steady_clock::now() < next) lock.wait_until(s.changed, next);
    if (s.stop) return;
  }
}

bool may_pass(const Error& error) {
  return remedy(error.code()) == Remedy::kRetry || error.code() == ErrorCode::kUnreachable;
}

bool is_over(const Error& error) {
  return error.code() == ErrorCode::kEnded || error.code() == ErrorCode::kJobFailed;
}

}  // namespace embers
