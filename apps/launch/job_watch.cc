#include "apps/launch/job_watch.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/errors.h"

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
      const std::lock_guard lock(mutex);
      ended = true;
    }
    changed.notify_all();
    thread.join();
  }

  void watch(const client::AdminOptions& options) {
    std::optional<client::Admin> admin;
    while (!is_over()) {
      const Seconds asked = clock();
      try {
        if (!admin) admin.emplace(options);
        const Status status = admin->status();
        tell(Answer{status, asked}, "");
      } catch (const Error& e) {
        tell(std::nullopt, e.what());
      }
      std::unique_lock lock(mutex);
      changed.wait_for(lock, kPause, [&] { return ended; });
    }
  }
  bool is_over() {
    const std::lock_guard lock(mutex);
    return ended;
  }
  void tell(std::optional<Answer> a, const std::string& why) {
    const std::lock_guard lock(mutex);
    if (a) answer = std::move(a);
    if (!why.empty() && why != last_trouble) trouble = why;
    last_trouble = why;
  }

  const std::function<Seconds()> clock;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool ended = false;
  std::optional<Answer> answer;
  std::optional<std::string> trouble;
  std::string last_trouble;
  std::thread thread;
};

JobWatch::JobWatch(const client::AdminOptions& options, std::function<Seconds()> clock)
    : impl_(std::make_unique<Impl>(options, std::move(clock))) {}
JobWatch::~JobWatch() = default;

std::optional<JobWatch::Answer> JobWatch::take_answer() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->answer, std::nullopt);
}

std::optional<std::string> JobWatch::take_trouble() {
  const std::lock_guard lock(impl_->mutex);
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
