// Who is in the job: heartbeats, connections, losses.
#include <algorithm>

#include "master/state/job_state.h"

namespace embers {
namespace {

constexpr std::chrono::seconds kOrderWait(10);  // until a member is told that there is no order
const char* const kGivenUp = "the master has given up on this worker: start a new one";

}  // namespace

// For those who ask a failed job for anything: they are told why it failed.
void JobState::check_failed(uint64_t incarnation) {
  if (!error_) return;
  if (members_.find(incarnation)) told_.insert(incarnation);
  throw Error(ErrorCode::kJobFailed, error_->what());
}

Member& JobState::member(uint64_t incarnation) {
  Member* const found = members_.find(incarnation);
  if (!found) throw Error(ErrorCode::kFenced, kGivenUp);
  return *found;
}

void JobState::take(const Event::Heartbeat& e) {
  if (e.incarnation != 0) {
    check_failed(e.incarnation);
    Member* const member = members_.find(e.incarnation);
    if (const auto why = turned_away_.extract(e.incarnation)) throw Error(why.mapped());
    if (!member)
      fail(ErrorCode::kFenced,
           "the master has given up on this process after {} s without a sign of life, and given its work to "
           "others",
           config_->job.job.heartbeat_timeout);
    member->last_seen = now_;
    member->rows = e.activity.rows;
    member->bytes = e.activity.bytes;
    member->waiting = e.activity.waiting;
    member->pulls.add(e.activity.pulls, now_);
    member->pushes.add(e.activity.pushes, now_);
    if (e.stop && member->owner) stop(member->describe() + " was asked to stop");
  }
  effect(
      Effect::Answer{e.ticket, Reply::Heartbeat{beat(), config_->job.job.heartbeat_timeout, map_version_}});
}

// A worker that cannot go on may have pushed parts of its work: it is lost. Others leave when they are done.
// An owner leaves only when it cannot take its place.
void JobState::take(const Event::Leave& e) {
  const Member* const member = members_.find(e.incarnation);
  if (member && member->owner) {
    leaves(member->number, e.reason);
  } else if (member && !e.reason.empty()) {
    lose_worker(e.incarnation, e.reason);
  } else if (member) {
    say(fmt::format("{} left", member->describe()));
    forget_worker(e.incarnation);
    clocks_.remove(e.incarnation);
    train_book_.revoke(e.incarnation);
    eval_book_.revoke(e.incarnation);
  }
  effect(Effect::Answer{e.ticket, Reply::Empty{}});
}

void JobState::take(const Event::LinkDown& e) {
  for (const uint64_t incarnation : members_.behind(e.link)) {
    Member& member = *members_.find(incarnation);
    member.token != 0 ? disconnected(member, e) : lose(incarnation, e.why);
  }
  std::erase_if(applicants_, [&](const Applicant& a) {  // it asks again, if it still runs
    if (a.join.link != e.link) return false;
    refuse(a.join.ticket, Error(ErrorCode::kUnavailable, e.why));
    return true;
  });
}

// Its process may be gone, or the network between has failed. For as long as it may still come back, others
// compute what it was given. The master's own connections show whether an owner is gone.
void JobState::disconnected(Member& member, const Event::LinkDown& e) {
  member.connected = false;
  if (member.worker() && e.hung_up) hung_up_.emplace(member.incarnation, now_);
  const Error unheard(ErrorCode::kUnavailable, e.why);
  for (WaitingList* list : {&waiting_leases_, &waiting_owners_, &waiting_draws_, &waiting_begins_})
    refuse_waiting(*list, member.incarnation, unheard);
  deadlines_.disconnected(member.incarnation, now_);
  if (over_or_failed()) return;
  const size_t opened = member.worker() ? lease_to_others(member.incarnation) : 0;
  say(fmt::format(
      "lost the connection to {}: {}{}", member.describe(), e.why,
      opened == 0 ? "" : fmt::format("; {} of its minibatches are leased to others, too", opened)));
}

void JobState::take(const Event::Reconnected& e) {
  Member* const member = members_.find(e.incarnation);
  if (member == nullptr || member->token == 0 || over_or_failed()) return;
  members_.move(*member, e.link);
  member->last_seen = now_;
  hung_up_.erase(e.incarnation);
  if (std::exchange(member->connected, true)) return;
  say(fmt::format("{} is connected again", member->describe()));
  if (!member->worker()) return;
  if (!deadlines_.is_late(e.incarnation)) lease_to_it_alone(e.incarnation);
  drain_surplus();  // another one may have taken its place
}

// Of a worker, in words.
std::string JobState::what_was_done(uint64_t incarnation) const {
  const Member& member = *members_.find(incarnation);
  if (!member.worker()) return "";
  if (member.done == 0) return "; it has finished no minibatch";
  return fmt::format("; it has finished {} minibatch{}, the last one {:.1f} s ago", member.done,
                     member.done == 1 ? "" : "es", seconds_since(member.last_done));
}

void JobState::lose(uint64_t incarnation, const std::string& why) {
  const Member& member = *members_.find(incarnation);
  member.owner ? lose_holder(member.number, why) : lose_worker(incarnation, why);
}

// A reader has written nothing. A worker is fenced at every owner first, so that nothing from it arrives
// after others have begun its work. Until then it holds the others up (bounded): what it was given is done
// before what follows. One that was still waiting to be let in does not know its incarnation, so nothing can
// come from it.
void JobState::lose_worker(uint64_t incarnation, const std::string& why) {
  const std::string who = members_.find(incarnation)->describe(), done = what_was_done(incarnation);
  const bool was_let_in = !waiting_joins_.contains(incarnation);
  const bool reader = members_.find(incarnation)->reader;
  forget_worker(incarnation);
  if (over_or_failed()) return;  // all members go
  say(fmt::format("lost {}: {}{}", who, why, done));
  if (reader) return;
  ++report_.workers_lost;
  if (phase_ == Phase::kEnding || !was_let_in) return;
  ask_owners(Question::Fence{incarnation}, {Then::What::kFenced, incarnation});
}

// Takes the member out of the books of all members, and refuses what it waits for.
void JobState::remove(uint64_t incarnation, const Error& why) {
  members_.remove(incarnation);
  addresses_.reset();
  if (const auto ticket = orders_.forget(incarnation)) refuse(*ticket, why);
  for (WaitingList* list :
       {&waiting_joins_, &waiting_leases_, &waiting_owners_, &waiting_draws_, &waiting_begins_})
    refuse_waiting(*list, incarnation, why);
}

void JobState::refuse_waiting(WaitingList& list, uint64_t incarnation, const Error& why) {
  if (const auto ticket = list.take(incarnation)) refuse(*ticket, why);
}

void JobState::take(const Event::Orders& e) {
  check_failed(e.incarnation);
  if (over_or_failed()) fail(ErrorCode::kJobFailed, "the job is over");
  Member& asking = member(e.incarnation);
  const auto earlier = orders_.ask(e.incarnation, e.ticket, e.received, e.carried_out, now_);
  if (earlier) refuse(*earlier, Error(ErrorCode::kUnavailable, kAskedAgain));
  asking.last_seen = now_;
  answer_order(e.incarnation);
}

void JobState::answer_order(uint64_t member) {
  if (const auto settled = orders_.ready(member)) effect(Effect::Answer{settled->ticket, settled->order});
}

void JobState::answer_orders() {
  for (const Orders::Settled& s : orders_.ready(now_ - kOrderWait)) effect(Effect::Answer{s.ticket, s.order});
}

void JobState::forget_worker(uint64_t incarnation) {
  if (members_.find(incarnation)->worker()) alone_since_ = now_;
  deadlines_.forget(incarnation);
  hung_up_.erase(incarnation);
  remove(incarnation, Error(ErrorCode::kFenced, "the master has given up on this worker"));
}

// A worker that asks again no longer waits for its earlier answer.
void JobState::wait(WaitingList& list, const Waiting& request) {
  refuse_waiting(list, request.incarnation, Error(ErrorCode::kUnavailable, kAskedAgain));
  list.add(request);
}

// When nothing is left to be done, those that are gone are not waited for.
void JobState::check_silent_workers() {
  const double timeout = config_->job.job.heartbeat_timeout;
  std::vector<uint64_t> silent;
  for (const auto& [incarnation, m] : members_.all())
    if (m.worker() && m.last_seen < after(-timeout)) silent.push_back(incarnation);
  for (const uint64_t incarnation : silent)
    lose(incarnation, fmt::format("no sign of life for {} s", timeout));
}

void JobState::check_silence() {
  // A process that is still joining does not know its incarnation, so heartbeats cannot cover it. Its
  // connection is watched instead.
  const auto is_joining = [&](uint64_t incarnation) {
    if (Member& joining = *members_.find(incarnation); joining.connected) joining.last_seen = now_;
  };
  waiting_joins_.for_each([&](const Waiting& w) { is_joining(w.incarnation); });
  for (const Place& place : places_)
    if (place.waits) is_joining(place.incarnation);
  const double timeout = config_->job.job.heartbeat_timeout;
  while (const Member* silent = members_.silent_since(after(-timeout))) {
    lose(silent->incarnation, fmt::format("no sign of life for {} s", timeout));
    if (over_or_failed()) return;
  }
  const bool needs_workers = phase_ == Phase::kTraining || phase_ == Phase::kEvaluating;
  if (needs_workers && members_.workers() == 0 &&
      seconds_since(alone_since_) > config_->job.job.worker_timeout)
    fail_job(Error(ErrorCode::kLost,
                   fmt::format("no worker is left, and none has joined for {} s (job.worker_timeout)",
                               config_->job.job.worker_timeout)));
}

}  // namespace embers
