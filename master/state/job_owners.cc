// What is asked of all owners; owners that are lost and come back: see master.h.
#include <algorithm>

#include "master/state/job_state.h"

namespace embers {
namespace {

constexpr size_t kMostTurnedAway = 100;  // whose reasons are kept

OwnerStats add_up(const std::map<uint32_t, OwnerAnswer>& answers) {
  OwnerStats sum;
  for (const auto& [owner, answer] : answers) {
    const OwnerStats& s = std::get<OwnerCounts>(answer).sums;
    sum.examples = std::max(sum.examples, s.examples);
    sum.minibatches = std::max(sum.minibatches, s.minibatches);
    sum.version = std::max(sum.version, s.version);
    sum.staleness.merge(s.staleness);
    sum.duplicates += s.duplicates;
    sum.bad_gradients += s.bad_gradients;
    sum.rows += s.rows;
    sum.resident_bytes += s.resident_bytes;
  }
  return sum;
}

}  // namespace

size_t JobState::owners_there() const {
  return std::count_if(places_.begin(), places_.end(), [](const Place& p) { return p.there(); });
}

bool JobState::owners_missing() const { return owners_there() < config_->shards; }

// The answers, of those that are away too, go to answered() as one. An error fails the job, naming the owner.
void JobState::ask_owners(Question::Any question, Then then) {
  std::set<uint32_t> numbers;
  for (uint32_t number = 0; number < places_.size(); ++number)
    if (places_[number].there() || places_[number].away) numbers.insert(number);
  if (numbers.empty()) return answered({std::move(question), then, {}, {}});
  const uint64_t id = questions_.ask(question, then, numbers);
  for (const uint32_t number : numbers)
    if (places_[number].there()) effect(Effect::Ask{number, places_[number].incarnation, id, question});
}

void JobState::answered(const Questions::Open& question) {
  if (over_or_failed()) return;
  const auto& answers = question.answers;
  switch (question.then.what) {
    case Then::What::kBegin:
      stats_ = add_up(answers);
      report_.total.owners = stats_;
      alone_since_ = now_;
      window_ = VersionWindow(stats_.version, 0, 0, 1, config_->job.training.reduction);
      partial_ = begin_.partial;  // it may be stopped, and saved, before a minibatch is leased
      if (config_->task == JobConfig::Task::kEvaluate)
        begin_evaluation();
      else
        begin_epoch(begin_.epoch, begin_.next, begin_.again);
      break;
    case Then::What::kProgress: {
      stats_ = add_up(answers);
      stats_pending_ = false;
      Progress p;
      p.epoch = epoch_;
      p.epochs = config_->job.training.epochs;
      p.evaluating = phase_ == Phase::kEvaluating;
      p.minibatches = book().done();
      p.total_minibatches = book().total();
      p.examples = p.evaluating ? evaluated_examples_ : stats_.examples;
      p.seconds = seconds_since(p.evaluating ? evaluation_start_ : sums_.start);
      const uint64_t before = p.evaluating ? 0 : sums_.first_examples;
      if (p.seconds > 0) p.examples_per_second = static_cast<double>(p.examples - before) / p.seconds;
      p.remaining = remaining();
      p.workers = members_.workers();
      p.owners = stats_;
      effect(Effect::ShowProgress{p});
      break;
    }
    case Then::What::kEpoch: {
      Settled settled = settle(answers);
      stats_ = settled.sums;
      partial_ = std::move(settled.partial);
      for (const uint64_t minibatch : settled.done) train_book_.mark_done(minibatch);
      close_epoch(stats_);
      break;
    }
    case Then::What::kCheckpoint:
      write_checkpoint(answers);
      break;
    case Then::What::kFenced: {
      const uint64_t worker = question.then.value;
      const size_t released = train_book_.revoke(worker) + eval_book_.revoke(worker);
      clocks_.remove(worker);
      report_.released += released;
      if (released > 0) say(fmt::format("{} of its minibatches are leased again", released));
      break;
    }
    case Then::What::kMapKnown:
      // Unless another owner has been lost meanwhile, or has come back.
      if (!owners_missing() && question.then.value == map_version_) go_on();
      break;
    case Then::What::kNorms: {
      storage::SquareSums sums;
      for (const auto& [owner, answer] : answers) add(std::get<storage::SquareSums>(answer), sums);
      send_commit(values(sums));
      break;
    }
    case Then::What::kCommitted:
      committing_ = false;
      if (phase_ != Phase::kTraining) return;
      window_.advance();
      train_book_.set_limit(window_.limit());
      break;
  }
}

JobState::Settled JobState::settle(const std::map<uint32_t, OwnerAnswer>& answers) {
  std::map<uint64_t, Partial> found;
  for (const auto& [owner, answer] : answers)
    for (const auto& a : std::get<OwnerCounts>(answer).applied) {
      found[a.minibatch].minibatch = a.minibatch;
      found[a.minibatch].owners.push_back(owner);
    }
  const auto by_all = [&](uint64_t minibatch) { return found.at(minibatch).owners.size() == answers.size(); };
  Settled settled;
  OwnerStats& sum = settled.sums = add_up(answers);
  sum.examples = sum.minibatches = 0;
  for (const auto& [owner, answer] : answers) {
    const auto& counts = std::get<OwnerCounts>(answer);
    uint64_t examples = counts.sums.examples, minibatches = counts.sums.minibatches;
    for (const auto& a : counts.applied)
      if (!by_all(a.minibatch)) {
        examples -= a.examples;
        minibatches -= a.examples > 0;  // 0: of an earlier run, not counted here
      }
    sum.examples = std::max(sum.examples, examples);
    sum.minibatches = std::max(sum.minibatches, minibatches);
  }
  for (const auto& [minibatch, p] : found)
    if (by_all(minibatch))
      settled.done.push_back(minibatch);
    else
      settled.partial.push_back(p);
  return settled;
}

void JobState::take(const Event::OwnerAnswered& e) {
  Place& place = places_.at(e.number);
  if (place.incarnation != e.incarnation) return;  // the next process was or will be asked again
  if (place.away) {
    if (place.holder == Place::Holder::kConnected && e.question == place.first_question)
      check_return(e.number, std::get<OwnerCounts>(e.answer).sums.version);
    return;
  }
  if (e.question == place.first_question) place.answered = true;
  if (const auto complete = questions_.answer(e.question, e.number, e.answer)) answered(*complete);
}

void JobState::take(const Event::OwnerFailed& e) {
  if (places_.at(e.number).incarnation == e.incarnation) owner_error(e.number, e.error);
}

void JobState::take(const Event::OwnerDown& e) {
  if (places_.at(e.number).incarnation == e.incarnation) lose_holder(e.number, e.why);
}

void JobState::owner_error(uint32_t number, const Error& why) {
  if (places_[number].holder == Place::Holder::kNobody) return;  // lost already
  if (places_[number].unproven()) return turn_away(number, why);
  is_gone(why) ? lose_owner(number, why.what()) : fail_job(why);
}

// --- joining ---------------------------------------------------------------------------------------

// A lost owner's place first.
std::optional<uint32_t> JobState::place_for_owner() const {
  std::optional<uint32_t> empty;
  for (uint32_t number = 0; number < places_.size(); ++number) {
    if (places_[number].holder != Place::Holder::kNobody) continue;
    if (places_[number].away) return number;
    if (!empty) empty = number;
  }
  return empty;
}

JobState::Place* JobState::place_of(uint64_t incarnation) {
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& p) {
    return p.holder == Place::Holder::kConnecting && p.incarnation == incarnation;
  });
  return found == places_.end() ? nullptr : &*found;
}

// Each is asked what version it is at: it has its place once it has answered, which shows that the master
// reaches it. Of one that takes over, the question waits in the connection until the process has finished
// what its journal holds.
void JobState::take(const Event::Connected& e) {
  Place* const place = place_of(e.incarnation);
  if (place == nullptr) return effect(Effect::Drop{e.incarnation});  // lost meanwhile
  const Member& member = *members_.find(e.incarnation);
  say(fmt::format("{} joined", member.describe()));
  place->holder = Place::Holder::kConnected;
  place->answered = false;
  map_version_ += place->away.has_value();
  place->first_question = questions_.next_id();
  effect(Effect::Ask{member.number, e.incarnation, place->first_question, Question::Stats{}});
  effect(Effect::Answer{place->join, join_reply(member)});
}

void JobState::take(const Event::NotConnected& e) {
  Place* const place = place_of(e.incarnation);
  if (place == nullptr) return;
  place->holder = Place::Holder::kNobody;
  remove(e.incarnation, e.error);
  refuse(place->join, e.error);
}

// --- lost owners -----------------------------------------------------------------------------------

// Whether owners of other processes can go on where they were cut off.
bool JobState::keeps_journal() const {
  const auto& storage = config_->job.storage;
  return storage.backend != "memory" && !storage.journal.empty();
}

// Whether a new process of this owner could go on where the lost one was cut off, and the job can wait for
// it.
bool JobState::waits_for(uint32_t number) const {
  const bool pauses = phase_ >= Phase::kTraining && phase_ <= Phase::kSaving;
  return pauses && keeps_journal() && config_->job.storage.owner_timeout > 0 && number >= local_owners_;
}

// Before the job has begun nothing is lost with an owner of another process. But a worker that was let in
// looks for it, and one of the same process would stay.
bool JobState::is_replaceable(const Member& owner) const {
  return phase_ == Phase::kGathering && owner.number >= local_owners_ &&
         std::ranges::all_of(members_.all(), [&](const auto& entry) {
           const Member& member = entry.second;
           return member.owner ||
                  (waiting_joins_.contains(member.incarnation) && !of_one_process(member, owner));
         });
}

void JobState::lose_holder(uint32_t number, const std::string& why) {
  places_[number].unproven() ? turn_away(number, Error(ErrorCode::kUnreachable, why))
                             : lose_owner(number, why);
}

// Loses the process that holds the owner's place, or the one that is about to take it.
void JobState::lose_owner(uint32_t number, const std::string& why) {
  Place& place = places_[number];
  if (over_or_failed() || place.holder == Place::Holder::kNobody) return;
  const Member* const member = members_.find_owner(number);
  const std::string lost = fmt::format(
      "lost {}: {}", member != nullptr ? member->describe() : fmt::format("shard {}", number), why);
  const bool connecting = place.holder == Place::Holder::kConnecting;
  owners_lost_ += !connecting;
  if (connecting) refuse(place.join, Error(ErrorCode::kUnavailable, lost));
  if (!connecting && member != nullptr && is_replaceable(*member))
    return vacate(place, Error(ErrorCode::kFenced, lost), lost);
  if (!connecting && !waits_for(number)) return fail_job(Error(ErrorCode::kLost, lost));
  if (member != nullptr) remove(member->incarnation, Error(ErrorCode::kFenced, lost));
  place.holder = Place::Holder::kNobody;
  place.waits = false;
  if (connecting) return say(lost);         // the place stays as it was
  effect(Effect::Drop{place.incarnation});  // one that hangs answers nothing
  paused_ = true;
  if (!place.away) place.away = Place::Away{lost, after(config_->job.storage.owner_timeout)};
  say(fmt::format("{}; waiting {:.0f} s for its next process (start embers shard again where it ran)", lost,
                  std::max(-seconds_since(place.away->deadline), 0.0)));
}

// The master does not reach an owner that has joined before the job has begun: another one may take its
// place. It is told why when it is heard of next.
void JobState::turn_away(uint32_t number, const Error& why) {
  if (phase_ != Phase::kGathering) return;
  Place& place = places_[number];
  const Member& member = *members_.find(place.incarnation);
  const Error reason(remedy(why.code()) == Remedy::kFix ? why.code() : ErrorCode::kUnreachable,
                     fmt::format("the master cannot reach {}: {}. It must listen where the master's host "
                                 "reaches it (--listen, --advertise)",
                                 member.describe(), why.what()));
  turned_away_.emplace(place.incarnation, reason);
  if (turned_away_.size() > kMostTurnedAway) turned_away_.erase(turned_away_.begin());
  vacate(place, reason, fmt::format("refused {}: {}", member.describe(), why.what()));
}

// A process with a new place leaves: perhaps it cannot open its store.
void JobState::leaves(uint32_t number, const std::string& why) {
  Place& place = places_[number];
  if (!place.unproven() || phase_ != Phase::kGathering) return lose_owner(number, why);
  vacate(
      place, Error(ErrorCode::kFenced, why),
      fmt::format("{} left{}{}", members_.find(place.incarnation)->describe(), why.empty() ? "" : ": ", why));
}

// Before the job has begun.
void JobState::vacate(Place& place, const Error& reason, const std::string& what) {
  remove(place.incarnation, reason);
  place.holder = Place::Holder::kNobody;
  effect(Effect::Drop{place.incarnation});
  say(what + "; the job waits for another shard process");
}

// It must be at the job's version, or have finished the commit that is under way.
void JobState::check_return(uint32_t number, uint64_t version) {
  Place& place = places_[number];
  if (over_or_failed()) return;
  if (sync() && version != window_.version() && !(committing_ && version == window_.version() + 1))
    return fail_job(Error(
        ErrorCode::kLost,
        fmt::format(
            "{}; its next process found version {} in its journal, the job is at version {}: go on from "
            "the last checkpoint (--resume)",
            place.away->lost, version, window_.version())));
  place.away.reset();
  place.answered = true;
  say(fmt::format("{} took the place of the lost one, at version {}", members_.find_owner(number)->describe(),
                  version));
  for (const auto& [id, question] : questions_.open_for(number))
    effect(Effect::Ask{number, place.incarnation, id, question});
  if (owners_missing()) return;
  questions_.withdraw(Then::What::kMapKnown);  // of a map before this one
  ask_owners(Question::NewMap{map_version_}, {Then::What::kMapKnown, map_version_});
}

void JobState::go_on() {
  paused_ = false;
  deadlines_.grant_time(now_);
  answer_owners(Time::max());
  if (std::exchange(save_again_, false)) save_or_go_on();
}

// A worker may lose its connection to an owner before the master loses its own, or when the master does not
// lose it at all: then the worker is told a moment later where the owners are.
void JobState::take(const Event::Owners& e) {
  check_failed(e.incarnation);
  member(e.incarnation);
  if (over_or_failed()) fail(ErrorCode::kJobFailed, "the job is over");
  wait(waiting_owners_, {e.ticket, e.incarnation, e.map_version < map_version_ ? Time::min() : now_});
  answer_owners(Time::min());
}

void JobState::answer_owners(Time asked_before) {
  if (paused_) return;
  waiting_owners_.take_if([&](const Waiting& w) {
    if (w.since > asked_before) return false;
    effect(Effect::Answer{w.ticket, Reply::Owners{map_version_, addresses()}});
    return true;
  });
}

void JobState::check_away() {
  if (over_or_failed()) return;
  for (const Place& place : places_)
    if (place.away && place.holder == Place::Holder::kNobody && now_ > place.away->deadline)
      return fail_job(Error(
          ErrorCode::kLost,
          fmt::format("{}; no process took its place within {} s (storage.owner_timeout): go on from the "
                      "last checkpoint (--resume)",
                      place.away->lost, config_->job.storage.owner_timeout)));
  answer_owners(after(-beat()));
  if (!paused_ && std::exchange(save_again_, false)) save_or_go_on();
}

}  // namespace embers
