// The course of a job: events, phases, versions.
#include "master/state/job_state.h"

#include <algorithm>
#include <array>
#include <limits>

namespace embers {
namespace {

struct Arrow {
  Phase from, to;
};

// master.h has the picture.
constexpr std::array kArrows{
    Arrow{Phase::kGathering, Phase::kPreparing},  // everybody has joined
    Arrow{Phase::kGathering, Phase::kEnding},     // stopped
    Arrow{Phase::kPreparing, Phase::kTraining},     Arrow{Phase::kPreparing, Phase::kEvaluating},
    Arrow{Phase::kPreparing, Phase::kSaving},  // nothing to train or evaluate
    Arrow{Phase::kTraining, Phase::kCheckpointing}, Arrow{Phase::kCheckpointing, Phase::kTraining},
    Arrow{Phase::kTraining, Phase::kSettling},      Arrow{Phase::kSettling, Phase::kEvaluating},
    Arrow{Phase::kSettling, Phase::kSaving},  // no test set, or stopped
    Arrow{Phase::kEvaluating, Phase::kScoring},     Arrow{Phase::kEvaluating, Phase::kSaving},  // stopped
    Arrow{Phase::kScoring, Phase::kSaving},         Arrow{Phase::kSaving, Phase::kTraining},
    Arrow{Phase::kSaving, Phase::kEnding},          Arrow{Phase::kEnding, Phase::kClosing},
    Arrow{Phase::kClosing, Phase::kOver},           Arrow{Phase::kFailed, Phase::kOver},
};

template <class E>
constexpr bool is_request = requires(const E& e) {
  e.ticket;
};

}  // namespace

const char* name(Phase phase) {
  constexpr std::array kNames{"gathering", "preparing", "training", "checkpointing", "settling", "evaluating",
                              "scoring",   "saving",    "ending",   "closing",       "failed",   "over"};
  return kNames.at(static_cast<size_t>(phase));
}

bool may_follow(Phase from, Phase to) {
  if (to == Phase::kFailed) return from < Phase::kEnding;
  return std::any_of(kArrows.begin(), kArrows.end(),
                     [&](const Arrow& a) { return a.from == from && a.to == to; });
}

JobState::JobState(std::shared_ptr<const JobConfig> config, uint32_t local_owners, bool shows_progress,
                   Time now)
    : config_(std::move(config)),
      model_signature_(signature(config_->model)),
      local_owners_(local_owners),
      shows_progress_(shows_progress),
      clips_by_norm_(storage::Clipper(config_->model.tables).needs_norms()),
      now_(now),
      last_tick_(now),
      wanted_workers_(config_->workers),
      places_(std::max(config_->shards, local_owners)),
      deadlines_(LeaseDeadlines::Duration(config_->job.job.lease_timeout)),
      start_(now) {
  for (uint32_t number = 0; number < local_owners; ++number) {
    places_[number].holder = Place::Holder::kConnected;
    places_[number].answered = true;
  }
  report_.job = config_->job.job.name;
  report_.mode = sync() ? "sync" : bounded() ? "bounded" : "async";
  report_.total.loss = report_.total.test_loss = report_.total.auc = report_.total.accuracy =
      std::numeric_limits<double>::quiet_NaN();
}

std::vector<Effect> JobState::on(const Event& event) {
  now_ = std::max(now_, event.at);
  std::visit(
      [this](const auto& e) {
        try {
          take(e);
        } catch (const Error& why) {
          if constexpr (is_request<std::decay_t<decltype(e)>>)
            refuse(e.ticket, why);
          else
            fail_job(why);
        }
      },
      event.what);
  try {
    do {
      admit_applicants();
      answer_joins();
      serve_leases();
      serve_draws();
      serve_begins();
    } while (step());
  } catch (const Error& why) {
    fail_job(why);
  }
  return std::exchange(effects_, {});
}

// The only place where the phase changes.
void JobState::enter(Phase next) {
  if (next == phase_) return;
  if (!may_follow(phase_, next))
    fail(ErrorCode::kInternal, "a job that is {} cannot go on to {}", name(phase_), name(next));
  if (works()) {
    keep_time();
    next == Phase::kCheckpointing ? time_left_.pause() : time_left_.finish(now_);
  }
  phase_ = next;
  keep_time();
  effect(Effect::Entered{next});
}

// Moves the job on if what its phase waits for has happened; false when there is nothing to do now. Called
// after every event until then, so no event needs to know who waits for it.
bool JobState::step() {
  if (begin_checkpoint()) return true;
  switch (phase_) {
    case Phase::kGathering:
      if (members_.staying_workers() < workers_to_begin() || owners_there() < config_->shards ||
          members_.active_workers() < workers_to_begin())
        return false;
      enter(Phase::kPreparing);
      effect(Effect::Prepare{cursor()});
      return true;
    case Phase::kTraining:
      if (committing_) return false;
      if (sync() && window_.ready()) return commit(), true;
      if (!train_book_.finished() && !(stopped() && drained())) return false;
      return end_epoch(), true;
    case Phase::kEvaluating:
      if (!eval_book_.finished() && !(stopped() && eval_book_.idle())) return false;
      return end_evaluation(), true;
    case Phase::kEnding:
      if (checkpoint_) return false;  // owners are needed for it
      if (members_.workers() > not_waited_for().size() && (now_ <= deadline_ || waits_for_workers()))
        return false;
      return close(), true;
    case Phase::kClosing:
      if (owners_to_tell_ > 0) return false;
      return over(), true;
    case Phase::kFailed: {
      const auto is_told = [&](const auto& m) {
        return m.second.owner || !m.second.connected || told_.contains(m.first);
      };
      const auto& all = members_.all();
      const bool all_told = owners_to_tell_ == 0 && std::all_of(all.begin(), all.end(), is_told);
      if (!all_told && now_ <= deadline_) return false;
      return over(), true;
    }
    default:
      return false;  // waits for an answer, which moves it on
  }
}

bool JobState::drained() const {
  if (!train_book_.idle()) return false;
  return members_.workers() == 0 || (sync() ? has_begun_no_version() : train_book_.again().empty());
}

// Sync: nobody has worked on the next one. With leases ahead, something done shows that somebody has.
bool JobState::has_begun_no_version() const {
  return train_book_.next() == window_.begin() || (leases_ahead_ && !window_.has_done());
}

void JobState::commit() {
  committing_ = true;
  if (clips_by_norm_)
    ask_owners(Question::Norms{window_.commit()}, {Then::What::kNorms});
  else
    send_commit({});
}

void JobState::send_commit(storage::SquaredNorms norms) {
  ask_owners(window_.commit(std::move(norms)), {Then::What::kCommitted});
}

void JobState::take(const Event::Prepared& e) {
  if (phase_ != Phase::kPreparing) return;
  begin_ = e.at;
  report_.first_epoch = begin_.epoch;
  report_.total.shards = config_->shards;
  ask_owners(Question::Stats{}, {Then::What::kBegin});
}

void JobState::take(const Event::WorkFailed& e) {
  // An interrupted save begins again once all owners are there.
  if (phase_ == Phase::kSaving && keeps_journal() && is_gone(e.error))
    save_again_ = true;
  else
    fail_job(e.error);
}

void JobState::take(const Event::Tick&) {
  // If this process was itself suspended, it cannot tell who was silent meanwhile.
  const double silence = config_->job.job.heartbeat_timeout;
  if (seconds_since(std::exchange(last_tick_, now_)) > silence / 2) {
    members_.grant_time(now_);
    deadlines_.grant_time(now_);
    quiet_.clear();
  }
  answer_orders();
  check_checkpoint();
  if (waits_for_workers()) check_silent_workers();
  if (phase_ >= Phase::kEnding) return;
  measure_pace();
  check_silence();
  check_away();
  check_late();
  keep_time();
  show_progress();
}

OwnerMap JobState::map() const {
  return even_owner_map(config_->shards, config_->job.storage.buckets, map_version_);
}

double JobState::beat() const { return std::min(1.0, config_->job.job.heartbeat_timeout / 4); }

JobState::Held JobState::held() const {
  return {members_.all().size(),
          waiting_joins_.size() + waiting_leases_.size() + waiting_owners_.size() + waiting_draws_.size() +
              waiting_begins_.size() + orders_.waiting() + applicants_.size() +
              (checkpoint_ && checkpoint_->ticket),
          questions_.size(),
          train_book_.again().size() + eval_book_.again().size() + train_book_.held() + eval_book_.held() +
              train_book_.late() + eval_book_.late()};
}

Time JobState::after(double seconds) const {
  return now_ + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
}

double JobState::seconds_since(Time then) const { return std::chrono::duration<double>(now_ - then).count(); }

}  // namespace embers
