// How the job stands, for people.
#include <algorithm>

#include "master/state/job_state.h"

namespace embers {
namespace {

double seconds(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }

}  // namespace

Status JobState::status(Time now) const {
  now = std::max(now, now_);
  const auto& training = config_->job.training;
  const bool is_training = config_->task == JobConfig::Task::kTrain,
             evaluating = phase_ == Phase::kEvaluating;
  Status s;
  s.mode = report_.mode;
  s.phase = name(phase_);
  s.error = error_ ? error_->what() : "";
  s.stopping = report_.stopped_by;
  s.elapsed_s = seconds(start_, now);
  s.remaining_s = remaining().value_or(Status::kNone);
  s.epoch = epoch_;
  s.epochs = is_training && !(wants_model() && config_->job.from_worker) ? training.epochs : 0;
  s.version = sync() && trains() ? window_.version() : stats_.version;
  const LeaseBook& book = evaluating ? eval_book_ : train_book_;
  s.minibatches_done = book.done();
  s.minibatches = book.total();
  s.examples = is_training ? begin_.examples + trained_examples_ : evaluated_examples_;
  s.examples_per_s = (evaluating || !is_training ? evaluation_pace_ : training_pace_).per_second(now);
  if (evaluation_)
    s.evaluation = Status::Evaluation{evaluation_->loss, evaluation_->auc, evaluation_->accuracy};
  if (stats_.staleness.pushes() > 0) {
    s.staleness_mean = stats_.staleness.mean();
    s.staleness_max = stats_.staleness.max;
  }
  s.workers = {wanted_workers_, members_.active_workers(), report_.workers_lost};
  const size_t waiting = std::ranges::count_if(places_, [](const Place& p) { return p.waits; });
  s.shards = {config_->shards, owners_there() + waiting, owners_lost_};
  for (uint32_t number = 0; number < places_.size(); ++number)
    if (places_[number].away && places_[number].holder == Place::Holder::kNobody) {
      Status::Member& lost = s.members.emplace_back();
      lost.name = fmt::format("shard {}", number);
      lost.role = "shard";
      lost.number = number;
      lost.state = "away";
    }
  for (const auto& [incarnation, member] : members_.all()) s.members.push_back(describe(member, now));
  return s;
}

Status::Member JobState::describe(const Member& member, Time now) const {
  Status::Member m;
  m.name = member.name();
  m.role = member.role();
  m.number = member.number;
  m.label = member.label;
  m.host = member.host;
  m.pid = member.pid;
  m.state = state_of(member);
  m.last_sign_s = seconds(member.last_seen, now);
  m.joined_s = seconds(member.joined, now);
  m.minibatches = member.done;
  m.examples = member.examples;
  m.rows = member.rows;
  m.bytes = member.bytes;
  m.pulls_per_s = member.pulls.per_second(now);
  m.pushes_per_s = member.pushes.per_second(now);
  m.lag = member.waiting;
  if (member.worker() && deadlines_.holds(member.incarnation)) m.lag = finished_ - member.began_at;
  return m;
}

std::string JobState::state_of(const Member& member) const {
  const uint64_t incarnation = member.incarnation;
  if (!member.connected) return "disconnected";
  if (member.owner) return places_[member.number].there() ? "working" : "joining";
  if (waiting_joins_.contains(incarnation)) return "joining";
  if (member.reader) return "working";
  if (member.draining) return "draining";
  if (deadlines_.is_late(incarnation)) return "late";
  return deadlines_.holds(incarnation) ? "working" : "idle";
}

}  // namespace embers
