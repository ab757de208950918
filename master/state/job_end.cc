// How a job ends: stopped, done or failed.
#include "master/state/job_state.h"

namespace embers {
namespace {

constexpr auto kEndSeconds = std::chrono::seconds(5);   // for workers to leave, then for owners to answer
constexpr auto kFailSeconds = std::chrono::seconds(3);  // for members to be told
// For a worker whose connection was cut in between to come back over another one, which it tries at once.
constexpr auto kComeBack = std::chrono::seconds(1);

}  // namespace

void JobState::stop(const std::string& why) {
  if (stopped() || phase_ >= Phase::kEnding) return;
  report_.stopped_by = why;
  say(fmt::format("{}: finishing what is under way{}", why,
                  config_->output.empty() || !saves_ ? "" : ", then saving"));
  if (phase_ == Phase::kGathering) return finish();
  if (!sync()) train_book_.set_limit(train_book_.next());
}

void JobState::finish() {
  enter(Phase::kEnding);
  deadline_ = now_ + kEndSeconds;
  answer_owners(Time::max());
  if (checkpoint_ && !waits_for_workers()) end_checkpoint(ended());
  refuse_joins(Error(ErrorCode::kJobFailed,
                     stopped() ? "the job ended before it began: " + report_.stopped_by : "the job is over"));
}

// Workers without which the job may end: all that is to be done is done, so they are late, or have ended
// their connection and not come back.
std::set<uint64_t> JobState::not_waited_for() const {
  std::set<uint64_t> workers;
  for (const LeaseDeadlines::Late& late : deadlines_.late(now_)) workers.insert(late.worker);
  for (const auto& [worker, since] : hung_up_)
    if (now_ - since >= kComeBack) workers.insert(worker);
  return workers;
}

// In a job whose model comes with its first worker, that is a program, which may still look rows up when
// nothing is left to be done. It leaves by itself.
bool JobState::waits_for_workers() const {
  return phase_ == Phase::kEnding && config_->job.from_worker && !stopped();
}

void JobState::close() {
  enter(Phase::kClosing);
  for (const auto& [incarnation, member] : members_.all())
    if (member.worker() && !member.connected) {
      say(fmt::format("lost {}{}", member.describe(), what_was_done(incarnation)));
      ++report_.workers_lost;
    }
  tell_owners(true, "", kEndSeconds);
}

void JobState::fail_job(const Error& why) {
  if (phase_ >= Phase::kEnding) return;
  enter(Phase::kFailed);
  error_ = why;
  deadline_ = now_ + kFailSeconds;
  const Error reply(ErrorCode::kJobFailed, why.what());
  if (checkpoint_) end_checkpoint(reply);
  refuse_joins(reply);
  for (WaitingList* list : {&waiting_leases_, &waiting_owners_, &waiting_draws_, &waiting_begins_})
    for (const Waiting& w : list->take_all()) {
      told_.insert(w.incarnation);
      refuse(w.ticket, reply);
    }
  for (const auto& [incarnation, member] : members_.all())
    if (const auto ticket = orders_.forget(incarnation)) {
      told_.insert(incarnation);
      refuse(*ticket, reply);
    }
  tell_owners(false, why.what(), kFailSeconds);
}

void JobState::tell_owners(bool ok, const std::string& message, std::chrono::seconds timeout) {
  for (uint32_t number = 0; number < places_.size(); ++number) {
    if (!places_[number].there() && !places_[number].unproven()) continue;
    ++owners_to_tell_;
    effect(Effect::Tell{number, places_[number].incarnation, ok, message, timeout});
  }
}

void JobState::take(const Event::OwnerTold&) {
  if (owners_to_tell_ > 0) --owners_to_tell_;
}

// A process that the master has given up on cannot end the job of the others.
void JobState::take(const Event::Fail& e) {
  if (e.incarnation != 0 && !members_.find(e.incarnation))
    fail(ErrorCode::kFenced, "the master has given up on this process and given its work to others");
  fail_job(e.error);
  effect(Effect::Answer{e.ticket, Reply::Empty{}});
}

// All that still waits is answered: nothing else will.
void JobState::over() {
  enter(Phase::kOver);
  report_.workers_joined = members_.workers_joined();
  if (checkpoint_) end_checkpoint(ended());
  const Error over(ErrorCode::kJobFailed, error_ ? error_->what() : "the job is over");
  const Error ended(ErrorCode::kEnded, over.what());  // what those are told that wait for orders alone
  refuse_joins(over);
  for (WaitingList* list : {&waiting_leases_, &waiting_owners_, &waiting_draws_, &waiting_begins_})
    for (const Waiting& w : list->take_all()) refuse(w.ticket, over);
  for (const auto& [incarnation, member] : members_.all())
    if (const auto ticket = orders_.forget(incarnation)) refuse(*ticket, error_ ? over : ended);
}

void JobState::refuse_joins(const Error& why) {
  for (const Applicant& a : std::exchange(applicants_, {})) refuse(a.join.ticket, why);
  for (const Waiting& w : waiting_joins_.take_all()) {
    remove(w.incarnation, why);
    refuse(w.ticket, why);
  }
  for (Place& place : places_)
    if (place.holder == Place::Holder::kConnecting) {
      place.holder = Place::Holder::kNobody;
      place.waits = false;
      remove(place.incarnation, why);
      refuse(place.join, why);
    }
}

}  // namespace embers
