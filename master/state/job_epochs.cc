// Epochs: their begin and end, evaluation, saving.
#include <limits>

#include "master/state/job_state.h"

namespace embers {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void JobState::begin_epoch(uint32_t number, uint64_t next, const std::vector<uint64_t>& again) {
  const auto& training = config_->job.training;
  epoch_ = number;
  train_book_ = LeaseBook(config_->train_minibatches, next, again, last_lease());
  if (epoch_ > training.epochs || stopped()) {
    window_ = VersionWindow(stats_.version, next, next, 1, training.reduction);
    return report_.epochs.empty() && !stopped() ? begin_evaluation() : save_or_go_on();
  }
  enter(Phase::kTraining);
  if (sync()) {
    window_ = VersionWindow(stats_.version, next, config_->train_minibatches, training.grads_to_wait,
                            training.reduction);
    train_book_.set_limit(window_.limit());
  }
  clocks_ = Clocks(training.staleness_bound);
  measure_pace();
  serve_all_again();
  sums_ = {};
  sums_.start = now_;
  sums_.first_examples = stats_.examples;
}

void JobState::end_epoch() {
  enter(Phase::kSettling);
  train_book_.forget_late();
  sums_.whole = !stopped() || members_.workers() > 0;
  report_.epochs.emplace_back().seconds = seconds_since(sums_.start);
  // Lost workers may have pushed minibatches that nobody finished.
  ask_owners(Question::Stats{epoch_, sync() ? std::vector<uint64_t>() : train_book_.again()},
             {Then::What::kEpoch});
}

void JobState::close_epoch(const OwnerStats& now) {
  Period& period = report_.epochs.back();
  period.examples = now.examples - sums_.first_examples;
  period.loss = sums_.examples > 0 ? sums_.loss_sum / static_cast<double>(sums_.examples) : kNone;
  period.test_loss = period.auc = period.accuracy = kNone;
  period.workers = members_.workers();
  period.shards = config_->shards;
  period.owners = now;
  period.stages = sums_.stages;
  period.keys = sums_.keys;
  period.cache_hits = sums_.cache_hits;
  report_.total.examples += period.examples;
  report_.total.seconds += period.seconds;
  report_.total.loss = period.loss;
  report_.total.workers = period.workers;
  report_.total.stages.add(sums_.stages);
  report_.total.keys += sums_.keys;
  report_.total.cache_hits += sums_.cache_hits;
  Staleness staleness = report_.total.owners.staleness;
  staleness.merge(now.staleness);
  report_.total.owners = now;
  report_.total.owners.staleness = staleness;
  if (now.staleness.pushes() > 0)
    say(fmt::format("epoch {}: staleness of gradients {}", epoch_, now.staleness.summary()));
  if (sums_.whole && period.examples != sums_.examples)
    return fail_job(Error(ErrorCode::kInternal,
                          fmt::format("epoch {}: the owners applied {} examples, workers finished {}", epoch_,
                                      period.examples, sums_.examples)));
  stopped() ? save_or_go_on() : begin_evaluation();
}

void JobState::begin_evaluation() {
  if (config_->test_minibatches == 0) return save_or_go_on();
  eval_book_ = LeaseBook(config_->test_minibatches, 0, {}, last_lease());
  enter(Phase::kEvaluating);
  evaluation_start_ = now_;
  evaluated_examples_ = counted_ = 0;
  measure_pace();
  limit_evaluation();
}

// Each evaluation counts from 0. The pace of training goes on from epoch to epoch: they may be short.
void JobState::measure_pace() {
  if (phase_ == Phase::kEvaluating) evaluation_pace_.add(evaluated_examples_, now_);
  if (phase_ == Phase::kTraining) training_pace_.add(trained_examples_, now_);
}

void JobState::limit_evaluation() {
  eval_book_.set_limit(counted_ + evaluation_window(config_->job.training.batch_size, members_.workers()));
}

// More is leased as the sums get on.
void JobState::take(const Event::Counted& e) {
  if (phase_ != Phase::kEvaluating) return;
  counted_ = e.minibatches;
  limit_evaluation();
}

// One that was stopped before its end has no metrics.
void JobState::end_evaluation() {
  eval_book_.forget_late();
  if (!eval_book_.finished()) return save_or_go_on();
  enter(Phase::kScoring);
  effect(Effect::Score{});
}

void JobState::take(const Event::Scored& e) {
  if (phase_ != Phase::kScoring) return;
  evaluation_ = Status::Evaluation{e.loss, e.auc, e.accuracy};
  const auto set = [&](Period& p) {
    p.test_loss = e.loss;
    p.auc = e.auc;
    p.accuracy = e.accuracy;
  };
  set(report_.total);
  if (config_->task == JobConfig::Task::kEvaluate) {
    report_.total.examples = e.examples;
    report_.total.seconds = seconds_since(evaluation_start_);
    report_.total.workers = members_.workers();
    report_.stopped_by.clear();  // by what came after the last record
  }
  if (!report_.epochs.empty()) set(report_.epochs.back());
  say(fmt::format("{}: {} test examples, loss {:.4f}, AUC {:.4f}, accuracy {:.4f}",
                  epoch_ > 0 ? fmt::format("epoch {}", epoch_) : "evaluation", e.examples, e.loss, e.auc,
                  e.accuracy));
  save_or_go_on();
}

// Whether minibatches are being done, as opposed to what comes between them.
bool JobState::works() const { return phase_ == Phase::kTraining || phase_ == Phase::kEvaluating; }

void JobState::keep_time() {
  if (paused_) return time_left_.pause();
  if (!works()) return;
  const auto kind = phase_ == Phase::kTraining ? TimeLeft::Kind::kTraining : TimeLeft::Kind::kEvaluation;
  time_left_.work(kind, book().done(), now_);
}

std::optional<double> JobState::remaining() const {
  if (stopped() || paused_ || members_.workers() == 0) return std::nullopt;
  if (phase_ < Phase::kTraining || phase_ > Phase::kSaving) return std::nullopt;
  const uint64_t epochs = config_->job.training.epochs;
  const bool is_training = config_->task == JobConfig::Task::kTrain;
  const uint64_t to_come = is_training && epochs > epoch_ ? epochs - epoch_ : 0;
  TimeLeft::Rest rest{to_come * config_->train_minibatches, to_come * config_->test_minibatches, to_come + 1};
  if (trains()) rest.training += train_book_.total() - train_book_.done();
  if (phase_ <= Phase::kSettling) rest.evaluation += config_->test_minibatches;
  if (phase_ == Phase::kEvaluating) rest.evaluation += eval_book_.total() - eval_book_.done();
  return time_left_.seconds(rest);
}

Cursor JobState::cursor() const {
  Cursor c;
  c.version = report_.total.owners.version;
  c.examples = report_.total.owners.examples;
  c.minibatches = report_.total.owners.minibatches;
  c.partial = partial_;
  c.shards = config_->shards;
  c.sync = sync();
  c.data = config_->train_signature;
  c.epoch = epoch_;
  if (train_book_.finished()) {
    ++c.epoch;
  } else {
    c.next = sync() ? window_.begin() : train_book_.next();
    if (!sync()) c.again = train_book_.again();
  }
  return c;
}

bool JobState::is_last() const {
  return config_->task == JobConfig::Task::kEvaluate || stopped() || epoch_ >= config_->job.training.epochs;
}

// Between epochs: saves when it is time, then begins the next epoch or ends the job.
void JobState::save_or_go_on() {
  enter(Phase::kSaving);
  // Until all owners are there, and only one checkpoint is written.
  if ((save_again_ = paused_ || writes_checkpoint())) return;
  const bool is_training = config_->task == JobConfig::Task::kTrain;
  const bool trained = is_training && (!report_.epochs.empty() || !config_->resume.empty());
  last_save_ = is_last();
  const bool due = last_save_ || (config_->save_every > 0 && epoch_ % config_->save_every == 0);
  effect(Effect::Save{saves_ && trained && due && !config_->output.empty(),
                      saves_ && last_save_ && is_training && !config_->dump_rows.empty(), cursor()});
}

void JobState::take(const Event::Saved& e) {
  if (phase_ != Phase::kSaving) return;
  time_left_.end_epoch(now_);
  if (e.checkpoint) say(fmt::format("saved to {}", config_->output));
  if (last_save_)
    finish();
  else if (stopped())
    save_or_go_on();
  else
    begin_epoch(epoch_ + 1, 0, {});
}

}  // namespace embers
