#include "apps/launch/job_watch.h"

#include <chrono>
#include <condition_variable>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/mutex.h"

namespace embers::launch {
namespace {

constexpr auto kPause = std::chrono::milliseconds(500);  // between an answer and the next question

bool is_there(const Status::Member& member) {
  return member.state != "disconnected" && member.state != "away" && member.state != "joining";
}

}  // namespace

struct JobWatch::Impl {
  Impl(const client::AdminOptions& options, std::function<Seconds()> now) : clock(std::move(now)) {
    thread = std::thread([this, options] { watch(options); });
  }
  ~Impl() {
    {
      const MutexLock lock(mutex);
      ended = true;
      changed.notify_all();
    }
    thread.join();
  }

  void watch(const client::AdminOptions& options) {
    std::optional<client::Admin> admin;
    do {
      const Seconds asked = clock();
      try {
        if (!admin) admin.emplace(options);
        tell(Answer{admin->status(), asked}, "");
      } catch (const Error& e) {
        tell(std::nullopt, e.what());
      }
    } while (pause());
  }
  // False at the end.
  bool pause() {
    const auto until = std::chrono::steady_clock::now() + kPause;
    MutexLock lock(mutex);
    while (!ended && std::chrono::steady_clock::now() < until) lock.wait_until(changed, until);
    return !ended;
  }
  void tell(std::optional<Answer> a, const std::string& why) {
    const MutexLock lock(mutex);
    if (a) answer = std::move(a);
    if (!why.empty() && why != last_trouble) trouble = why;
    last_trouble = why;
  }

  const std::function<Seconds()> clock;
  Mutex mutex;
  std::condition_variable changed;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  std::optional<Answer> answer ABSL_GUARDED_BY(mutex);
  std::optional<std::string> trouble ABSL_GUARDED_BY(mutex);
  std::string last_trouble ABSL_GUARDED_BY(mutex);
  std::thread thread;
};

JobWatch::JobWatch(const client::AdminOptions& options, std::function<Seconds()> clock)
    : impl_(std::make_unique<Impl>(options, std::move(clock))) {}
JobWatch::~JobWatch() = default;

std::optional<JobWatch::Answer> JobWatch::take_answer() {
  const MutexLock lock(impl_->mutex);
  return std::exchange(impl_->answer, std::nullopt);
}

std::optional<std::string> JobWatch::take_trouble() {
  const MutexLock lock(impl_->mutex);
  return std::exchange(impl_->trouble, std::nullopt);
}

JobView view_of(const Status& status, const std::set<std::string>& labels) {
  JobView view;
  view.workers_wanted = static_cast<uint32_t>(status.workers.wanted);
  view.misses_shards = status.shards.joined < status.shards.wanted;
  view.begun = status.phase != "gathering";
  view.ending = !status.stopping.empty() || !status.error.empty() || status.phase == "ending" ||
                status.phase == "closing" || status.phase == "failed" || status.phase == "over";
  for (const Status::Member& member : status.members) {
    view.known.insert(member.label);
    if (member.state == "disconnected") view.disconnected.insert(member.label);
    if (!is_there(member)) continue;
    const bool worker = member.role == "worker";
    if (labels.contains(member.label))
      view.members[member.label] = {member.joined_s, !worker || member.minibatches > 0};
    else if (worker && member.state != "draining")
      ++view.other_workers;
  }
  return view;
}

}  // namespace embers::launch
