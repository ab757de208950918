// Who is in the job: joins, heartbeats, losses.
#include <algorithm>

#include "master/state/job_state.h"
#include "schema/label.h"

namespace embers {
namespace {

constexpr std::chrono::seconds kOrderWait(10);  // until a member is told that there is no order
const char* const kAskedAgain = "it was asked again before it was answered";
const char* const kGivenUp = "the master has given up on this worker: start a new one";

std::string worker_at(const Event::Join& e) { return fmt::format("worker pid {} on {}", e.pid, e.host); }

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

void JobState::take(const Event::Join& e) {
  check_failed(0);
  if (over_or_failed()) fail(ErrorCode::kJobFailed, "the job is over");
  if (Member* const known = members_.find_token(e.token)) return join_again(*known, e);
  check_label(e.label);
  Member member;
  member.owner = e.owner;
  member.reader = e.reader;
  member.host = e.host;
  member.pid = e.pid;
  member.endpoints = e.endpoints;
  member.boot_id = e.boot_id;
  member.link = e.link;
  member.more = e.more;
  member.token = e.token;
  member.label = e.label;
  // Whoever is refused leaves nothing behind: everything is checked before anything is changed.
  if (member.owner) check_owner(member);
  if (member.worker()) check_worker(e);
  if (member.owner) member.number = *place_for_owner();
  if (member.worker()) accept_numeric_settings(e);
  const Member& added = members_.add(std::move(member), now_);
  if (added.owner) addresses_.reset();
  if (!e.owner) {
    say(fmt::format("{} joined", added.describe()));
    waiting_joins_.add({e.ticket, added.incarnation, now_});
    if (!added.worker()) return;
    alone_since_ = now_;
    // Whoever was started by hand is welcome, beside those that may come back. Others were started to make
    // the wanted number true, which may have changed meanwhile.
    if (added.label.empty())
      wanted_workers_ = std::max(wanted_workers_, static_cast<uint32_t>(members_.staying_workers()));
    drain_surplus();
    return;
  }
  Place& place = places_[added.number];
  place.holder = Place::Holder::kConnecting;
  place.incarnation = added.incarnation;
  place.join = e.ticket;
  effect(Effect::Connect{added.number, added.incarnation, added.describe(), added.endpoints, added.boot_id});
}

// The answer was lost with the connection, or is still to come.
void JobState::join_again(Member& member, const Event::Join& e) {
  if (member.worker()) {
    check_worker(e);
    accept_numeric_settings(e);
  }
  take(Event::Reconnected{member.incarnation, e.link});
  if (!member.owner) return wait(waiting_joins_, {e.ticket, member.incarnation, now_});
  Place& place = places_[member.number];
  if (place.holder == Place::Holder::kConnecting)
    refuse(std::exchange(place.join, e.ticket), Error(ErrorCode::kUnavailable, kAskedAgain));
  else
    effect(Effect::Answer{e.ticket, join_reply(member)});
}

// A process with more owners than there are places is refused as a whole, before the first of them joins.
// Otherwise some of its owners would have to leave again, as lost owners. So places are kept for the owners
// of other processes that have begun to join.
void JobState::check_owner(const Member& joining) const {
  const size_t open = std::count_if(places_.begin(), places_.end(),
                                    [](const Place& p) { return p.holder == Place::Holder::kNobody; });
  const size_t kept = members_.kept_from(joining), come = size_t{1} + joining.more;
  if (open == 0)
    fail(ErrorCode::kInvalid, "this job has {} shards and all have joined{}", config_->shards,
         config_->model.has_embeddings() ? ""
                                         : " (its model has no Embedding layer and needs no shard process)");
  if (kept + come > open)
    fail(ErrorCode::kInvalid,
         "this job has {} shards, of which {} {} not joined yet{}: a process with {} owner{} does not fit "
         "(--owners)",
         config_->shards, open, open == 1 ? "has" : "have",
         kept == 0 ? "" : fmt::format(" (places kept for processes that are still joining: {})", kept), come,
         come == 1 ? "" : "s");
}

void JobState::check_worker(const Event::Join& e) const {
  const std::string where = worker_at(e);
  if (const std::string d = signature_difference(model_signature_, e.model); !d.empty())
    fail(ErrorCode::kMismatch, "the model differs: {} ({})", d, where);
  check_settings(e.settings, where);
  if (!sync()) return;
  if (const auto differences = numeric_differences(e); !differences.empty())
    fail(ErrorCode::kMismatch,
         "{}; a sync job gives the same weights only with the same settings on all workers",
         differences.front());
}

// Of a worker that has passed all checks. The first one decides; when it has gone before the job starts,
// nothing was computed with its settings, and the next one does.
void JobState::accept_numeric_settings(const Event::Join& e) {
  if (phase_ == Phase::kGathering && !members_.has_active_worker()) numeric_settings_ = e.numeric;
  for (const std::string& difference : numeric_differences(e)) say(difference);
}

// Between the worker and the first one, in words.
std::vector<std::string> JobState::numeric_differences(const Event::Join& e) const {
  if (phase_ == Phase::kGathering && !members_.has_active_worker()) return {};
  std::vector<std::string> differences;
  for (size_t i = 0; i < std::max(e.numeric.size(), numeric_settings_.size()); ++i) {
    const std::string a = i < numeric_settings_.size() ? numeric_settings_[i] : "nothing";
    const std::string b = i < e.numeric.size() ? e.numeric[i] : "nothing";
    if (a != b)
      differences.push_back(
          fmt::format("numeric settings differ: {} at the first worker, {} at {}", a, b, worker_at(e)));
  }
  return differences;
}

// With different values or data, a worker would compute minibatches other than those that are counted.
void JobState::check_settings(const std::vector<std::string>& theirs, const std::string& where) const {
  const auto first_missing = [](const std::vector<std::string>& lines, const std::vector<std::string>& from) {
    const auto it = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return std::find(from.begin(), from.end(), line) == from.end();
    });
    return it == lines.end() ? std::string("no such value") : *it;
  };
  if (theirs == config_->settings) return;
  fail(ErrorCode::kMismatch, "the job differs: {} at the master, {} at the worker ({})",
       first_missing(config_->settings, theirs), first_missing(theirs, config_->settings), where);
}

void JobState::answer_joins() {
  if (waiting_joins_.empty() || owners_missing() || paused_) return;
  waiting_joins_.take_if([&](const Waiting& w) {
    const Member& member = *members_.find(w.incarnation);
    if (member.reader && phase_ < Phase::kTraining) return false;  // owners have no rows worth reading yet
    effect(Effect::Answer{w.ticket, join_reply(member)});
    return true;
  });
}

Reply::Join JobState::join_reply(const Member& member) {
  return {member.incarnation, member.number,
          map_version_,       member.owner && places_[member.number].away.has_value(),
          member.reader,      member.owner ? nullptr : addresses()};
}

const Reply::Addresses& JobState::addresses() {
  if (addresses_) return addresses_;
  auto all = std::make_shared<std::vector<Reply::Address>>(config_->shards);
  for (uint32_t number = 0; number < config_->shards; ++number)
    if (const Member* const owner = members_.find(places_[number].incarnation))
      (*all)[number] = {owner->endpoints, owner->boot_id};
  return addresses_ = std::move(all);
}

void JobState::take(const Event::Heartbeat& e) {
  if (e.incarnation != 0) {
    check_failed(e.incarnation);
    Member* const member = members_.find(e.incarnation);
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
  if (member && (member->owner || !e.reason.empty())) {
    lose(e.incarnation, e.reason);
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
    member.token != 0 ? disconnected(member, e.why) : lose(incarnation, e.why);
  }
}

// Its process may be gone, or the network between has failed. For as long as it may still come back, others
// compute what it was given. The master's own connections show whether an owner is gone.
void JobState::disconnected(Member& member, const std::string& why) {
  member.connected = false;
  const Error unheard(ErrorCode::kUnavailable, why);
  refuse_waiting(waiting_leases_, member.incarnation, unheard);
  refuse_waiting(waiting_owners_, member.incarnation, unheard);
  if (over_or_failed()) return;
  const size_t opened = member.worker() ? lease_to_others(member.incarnation) : 0;
  say(fmt::format(
      "lost the connection to {}: {}{}", member.describe(), why,
      opened == 0 ? "" : fmt::format("; {} of its minibatches are leased to others, too", opened)));
}

void JobState::take(const Event::Reconnected& e) {
  Member* const member = members_.find(e.incarnation);
  if (member == nullptr || member->token == 0 || over_or_failed()) return;
  members_.move(*member, e.link);
  member->last_seen = now_;
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
  member.owner ? lose_owner(member.number, why) : lose_worker(incarnation, why);
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
  for (WaitingList* list : {&waiting_joins_, &waiting_leases_, &waiting_owners_})
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
  remove(incarnation, Error(ErrorCode::kFenced, "the master has given up on this worker"));
}

// A worker that asks again no longer waits for its earlier answer.
void JobState::wait(WaitingList& list, const Waiting& request) {
  refuse_waiting(list, request.incarnation, Error(ErrorCode::kUnavailable, kAskedAgain));
  list.add(request);
}

void JobState::check_silence() {
  // A process that is still joining does not know its incarnation, so heartbeats cannot cover it. Its
  // connection is watched instead.
  waiting_joins_.for_each([&](const Waiting& w) {
    if (Member& joining = *members_.find(w.incarnation); joining.connected) joining.last_seen = now_;
  });
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
