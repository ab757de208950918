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
// How long the master may be away before that is worth a word: at its end, it is gone just before its
// process.
constexpr Seconds kPatience = 3;

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
        if (const auto why = reason_to_stop()) admin->stop(true, *why);
        on_answer({admin->status(), asked});
      } catch (const Error& e) {
        const bool farewell = e.code() == ErrorCode::kEnded || e.code() == ErrorCode::kJobFailed;
        farewell ? on_end() : on_failure(asked, e.what());
      } catch (const std::exception& e) {
        on_failure(asked, e.what());
      }
    } while (pause());
  }
  // False at the end.
  bool pause() {
    const auto until = std::chrono::steady_clock::now() + kPause;
    MutexLock lock(mutex);
    while (!ended && stop != Stop::kWanted && std::chrono::steady_clock::now() < until)
      lock.wait_until(changed, until);
    return !ended;
  }
  std::optional<std::string> reason_to_stop() {
    const MutexLock lock(mutex);
    if (stop == Stop::kNo || stop == Stop::kDone) return std::nullopt;
    stop = Stop::kTried;
    return why_stop;
  }

  void on_answer(Answer a) {
    const MutexLock lock(mutex);
    if (stop == Stop::kTried) stop = Stop::kDone;
    answer = std::move(a);
    failing_since.reset();
    troubled = false;
  }
  void on_end() {
    const MutexLock lock(mutex);
    if (stop == Stop::kTried) stop = Stop::kDone;
    over = true;
  }
  void on_failure(Seconds asked, const std::string& why) {
    const MutexLock lock(mutex);
    if (over) return;
    if (stop == Stop::kTried && !std::exchange(stop_failed, true)) stop_failure_to_tell = true;
    if (!failing_since) failing_since = asked;
    if (clock() - *failing_since < kPatience || std::exchange(troubled, true)) return;
    trouble = why;
  }

  // What became of the wish to stop the job.
  enum class Stop : uint8_t { kNo, kWanted, kTried, kDone };

  const std::function<Seconds()> clock;
  Mutex mutex;
  std::condition_variable changed;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  bool over ABSL_GUARDED_BY(mutex) = false;  // the job, as its master has said
  std::optional<Answer> answer ABSL_GUARDED_BY(mutex);
  std::optional<Seconds> failing_since ABSL_GUARDED_BY(mutex);
  std::optional<std::string> trouble ABSL_GUARDED_BY(mutex);
  bool troubled ABSL_GUARDED_BY(mutex) = false;  // since the last answer
  Stop stop ABSL_GUARDED_BY(mutex) = Stop::kNo;
  std::string why_stop ABSL_GUARDED_BY(mutex);
  bool stop_failed ABSL_GUARDED_BY(mutex) = false, stop_failure_to_tell ABSL_GUARDED_BY(mutex) = false;
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

void JobWatch::stop(const std::string& why) {
  const MutexLock lock(impl_->mutex);
  if (impl_->stop != Impl::Stop::kNo) return;
  impl_->stop = Impl::Stop::kWanted;
  impl_->why_stop = why;
  impl_->changed.notify_all();
}

bool JobWatch::take_stop_failed() {
  const MutexLock lock(impl_->mutex);
  return std::exchange(impl_->stop_failure_to_tell, false);
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
