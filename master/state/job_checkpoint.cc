// A checkpoint that somebody wants while the job runs.
#include <algorithm>

#include "master/state/job_state.h"

namespace embers {
namespace {

using Stage = WantedCheckpoint::Stage;

// Until whoever waits for a checkpoint is told that it is not there yet.
constexpr std::chrono::seconds kNotYet(1);

}  // namespace

// The first answer comes at once: from then on nothing new is begun, so whoever asks can give back what it
// holds and will not finish.
void JobState::take(const Event::Checkpoint& e) {
  if (e.id == last_checkpoint_.id && e.id != 0) {
    if (last_checkpoint_.error) throw Error(*last_checkpoint_.error);
    return effect(Effect::Answer{e.ticket, Reply::Checkpoint{true}});
  }
  if (!waits_for_workers()) check_steerable();
  if (checkpoint_ && checkpoint_->id == e.id) {
    if (checkpoint_->ticket) refuse(*checkpoint_->ticket, Error(ErrorCode::kUnavailable, kAskedAgain));
    checkpoint_->ticket = e.ticket;
    checkpoint_->asked = now_;
    return;
  }
  if (e.directory.empty()) fail(ErrorCode::kInvalid, "which directory is the checkpoint to be saved to?");
  if (config_->task == JobConfig::Task::kEvaluate)
    fail(ErrorCode::kInvalid, "this job evaluates a saved model: there is nothing new to save");
  if (phase_ == Phase::kGathering)
    fail(ErrorCode::kInvalid, "the job has not begun yet: there is nothing to save");
  if (checkpoint_)
    fail(ErrorCode::kInvalid, "another checkpoint is being saved to {}: ask again when it is there",
         checkpoint_->directory);
  checkpoint_ = WantedCheckpoint{e.id, e.directory, Stage::kWanted, false, std::nullopt, now_};
  say(fmt::format("a checkpoint is wanted in {}{}", e.directory,
                  trains() ? ": finishing what is under way" : ""));
  effect(Effect::Answer{e.ticket, Reply::Checkpoint{false}});
}

// In the middle of an epoch. Others still may take over from a late worker: else what that one does later
// might be in some rows of the checkpoint and not in others. Sync: it is in none before its commit.
bool JobState::begins_nothing() const {
  return checkpoint_ && trains() && (phase_ == Phase::kCheckpointing || sync() || !train_book_.contested());
}

bool JobState::nobody_works() const {
  return !train_book_.works() && !committing_ && (sync() ? !window_.ready() : !train_book_.contested());
}

// Leases that were drawn ahead of their work are not waited for, and in sync mode nor is the version that has
// begun: what owners have of it is in no row yet, and a job that goes on from the checkpoint does it again.
bool JobState::begin_checkpoint() {
  if (!checkpoint_ || checkpoint_->stage != Stage::kWanted || checkpoint_->rests || paused_) return false;
  switch (phase_) {
    case Phase::kTraining:
      if (!nobody_works()) return false;
      enter(Phase::kCheckpointing);
      [[fallthrough]];
    case Phase::kCheckpointing:
      checkpoint_->stage = Stage::kCounting;
      // Lost workers may have pushed minibatches that nobody finished.
      ask_owners(Question::Stats{epoch_, sync() ? std::vector<uint64_t>() : train_book_.undone()},
                 {Then::What::kCheckpoint});
      return true;
    case Phase::kEvaluating:
    case Phase::kScoring:
    case Phase::kEnding:
      checkpoint_->stage = Stage::kWriting;
      effect(Effect::Checkpoint{checkpoint_->directory, cursor()});
      return true;
    default:
      return false;
  }
}

// As the job would stop here. What is only here, and not in the job that goes on: what all owners have
// applied is done, though nobody has said so.
void JobState::write_checkpoint(const std::map<uint32_t, OwnerAnswer>& counts) {
  if (phase_ != Phase::kCheckpointing) return;
  if (paused_) {  // an owner has been lost since
    checkpoint_->stage = Stage::kWanted;
    return;
  }
  Settled settled = settle(counts);
  Cursor at = cursor();
  at.version = settled.sums.version;
  at.examples = settled.sums.examples;
  at.minibatches = settled.sums.minibatches;
  at.partial = std::move(settled.partial);
  if (!sync() && !train_book_.finished()) {
    at.again = train_book_.undone();
    std::erase_if(at.again, [&](uint64_t m) { return std::ranges::binary_search(settled.done, m); });
  }
  checkpoint_->stage = Stage::kWriting;
  effect(Effect::Checkpoint{checkpoint_->directory, std::move(at)});
}

void JobState::take(const Event::CheckpointSaved&) {
  if (!writes_checkpoint()) return;  // the job has failed
  say(fmt::format("saved to {}", checkpoint_->directory));
  end_checkpoint(std::nullopt);
}

// One that was interrupted by the loss of an owner begins again once all owners are there.
void JobState::take(const Event::CheckpointFailed& e) {
  if (!writes_checkpoint()) return;
  if (is_gone(e.error) && keeps_journal() && phase_ <= Phase::kSaving) {
    checkpoint_->stage = Stage::kWanted;
    checkpoint_->rests = true;
    return go_on_saving();
  }
  say(fmt::format("cannot save to {}: {}", checkpoint_->directory, e.error.what()));
  end_checkpoint(e.error);
}

void JobState::go_on_saving() {
  if (phase_ == Phase::kSaving && save_again_ && !paused_) save_or_go_on();
}

void JobState::end_checkpoint(const std::optional<Error>& error) {
  const WantedCheckpoint over = *std::exchange(checkpoint_, std::nullopt);
  last_checkpoint_ = {over.id, error};
  if (over.ticket && error) refuse(*over.ticket, *error);
  if (over.ticket && !error) effect(Effect::Answer{*over.ticket, Reply::Checkpoint{true}});
  go_on_saving();
  if (phase_ != Phase::kCheckpointing) return;
  enter(Phase::kTraining);
  deadlines_.grant_time(now_);
  alone_since_ = now_;
  serve_all_again();
}

void JobState::check_checkpoint() {
  if (!checkpoint_) return;
  checkpoint_->rests = false;
  if (checkpoint_->ticket && now_ - checkpoint_->asked >= kNotYet)
    effect(Effect::Answer{*std::exchange(checkpoint_->ticket, std::nullopt), Reply::Checkpoint{false}});
}

}  // namespace embers
