// Epochs: their begin and end, evaluation, saving.

#include "master/master_state.h"

namespace embers {

void MasterState::begin_epoch(uint32_t number, uint64_t next, const std::vector<uint64_t>& again) {
  epoch = number;
  if (epoch > config->job.training.epochs || !stopping.empty()) {
    train_book = LeaseBook(config->train_minibatches, next, again);
    window = VersionWindow(stats.version, next, next, 1, config->job.training.reduction);
    return report.epochs.empty() && stopping.empty() ? begin_evaluation() : save_or_go_on();
  }
  phase = Phase::kTraining;
  train_book = LeaseBook(config->train_minibatches, next, again);
  if (sync()) {
    window = VersionWindow(stats.version, next, config->train_minibatches, config->job.training.grads_to_wait,
                           config->job.training.reduction);
    train_book.set_limit(window.limit());
  }
  clocks = Clocks(config->job.training.staleness_bound);
  epoch_start = Clock::now();
  epoch_first_examples = stats.examples;
  epoch_loss_sum = 0;
  epoch_loss_examples = 0;
  epoch_stages = {};
  epoch_keys = epoch_cache_hits = 0;
  serve_leases();
  after_progress();
}

void MasterState::end_epoch() {
  phase = Phase::kSaving;
  const double seconds = std::chrono::duration<double>(Clock::now() - epoch_start).count();
  report.epochs.emplace_back().seconds = seconds;
  // Lost workers may have pushed minibatches that nobody finished.
  const std::vector<uint64_t> open = sync() ? std::vector<uint64_t>() : train_book.again();
  ask_owners<wire::StatsRequest>(make_message<wire::StatsRequest>([&](wire::StatsRequest::Builder b) {
                                   b.setEpoch(epoch);
                                   auto list = b.initMinibatches(open.size());
                                   for (unsigned i = 0; i < open.size(); ++i) list.set(i, open[i]);
                                 }),
                                 [this](const auto& replies) {
                                   stats = settle(replies);
                                   close_epoch(stats);
                                 });
}

void MasterState::close_epoch(const OwnerStats& now) {
  Period& period = report.epochs.back();
  period.examples = now.examples - epoch_first_examples;
  period.loss = epoch_loss_examples > 0 ? epoch_loss_sum / static_cast<double>(epoch_loss_examples) : kNaN;
  period.test_loss = period.auc = period.accuracy = kNaN;
  period.workers = members.workers();
  period.shards = config->shards;
  period.owners = now;
  period.stages = epoch_stages;
  period.keys = epoch_keys;
  period.cache_hits = epoch_cache_hits;
  report.total.examples += period.examples;
  report.total.seconds += period.seconds;
  report.total.loss = period.loss;
  report.total.workers = period.workers;
  report.total.stages.add(epoch_stages);
  report.total.keys += epoch_keys;
  report.total.cache_hits += epoch_cache_hits;
  Staleness staleness = report.total.owners.staleness;
  staleness.merge(now.staleness);
  report.total.owners = now;
  report.total.owners.staleness = staleness;
  if (now.staleness.pushes() > 0)
    event(fmt::format("epoch {}: staleness of gradients {}", epoch, now.staleness.text()));
  // If there are no workers when the job stops, some pushes were never finished or never committed.
  const bool whole = stopping.empty() || members.workers() > 0;
  if (whole && period.examples != epoch_loss_examples)
    return fail_job(Error(ErrorCode::kInternal,
                          fmt::format("epoch {}: the owners applied {} examples, workers finished {}", epoch,
                                      period.examples, epoch_loss_examples)));
  if (stopping.empty())
    begin_evaluation();
  else
    save_or_go_on();
}

void MasterState::begin_evaluation() {
  if (config->test_minibatches == 0) return save_or_go_on();
  phase = Phase::kEvaluating;
  if (!evaluator) {
    evaluator = config->spawn_evaluator(self->home_system());
    self->attach_functor([e = evaluator] { caf::anon_send_exit(e, caf::exit_reason::user_shutdown); });
  }
  const bool predicts = config->task == MasterConfig::Task::kEvaluate;
  self->request(evaluator, caf::infinite, begin_evaluation_atom::value,
                predicts ? config->predictions : std::string())
      .then([] {}, [this](caf::error& e) { fail_job(from_caf(e)); });
  evaluation_counted = evaluation_examples = 0;
  evaluation_start = Clock::now();
  eval_book = LeaseBook(config->test_minibatches);
  limit_evaluation();
  serve_leases();
  after_progress();
}

void MasterState::end_evaluation() {
  phase = Phase::kSaving;
  if (!eval_book.finished()) return save_or_go_on();  // stopped
  self->request(evaluator, caf::infinite, metrics_atom::value)
      .then(
          [this](const Evaluation::Metrics& metrics) {
            if (!over_or_failed()) close_evaluation(metrics);
          },
          [this](caf::error& e) { fail_job(from_caf(e)); });
}

void MasterState::close_evaluation(const Evaluation::Metrics& metrics) {
  const auto set = [&](Period& p) {
    p.test_loss = metrics.loss;
    p.auc = metrics.auc;
    p.accuracy = metrics.accuracy;
  };
  set(report.total);
  if (config->task == MasterConfig::Task::kEvaluate) {
    report.total.examples = metrics.examples;
    report.total.seconds = std::chrono::duration<double>(Clock::now() - evaluation_start).count();
    report.total.workers = members.workers();
    report.stopped_by.clear();  // by what came after the last record
  }
  if (!report.epochs.empty()) set(report.epochs.back());
  event(fmt::format("{}: {} test examples, loss {:.4f}, AUC {:.4f}, accuracy {:.4f}",
                    epoch > 0 ? fmt::format("epoch {}", epoch) : "evaluation", metrics.examples, metrics.loss,
                    metrics.auc, metrics.accuracy));
  save_or_go_on();
}

Cursor MasterState::cursor() const {
  Cursor c;
  c.version = report.total.owners.version;
  c.examples = report.total.owners.examples;
  c.minibatches = report.total.owners.minibatches;
  c.partial = partial;
  c.shards = config->shards;
  c.sync = sync();
  c.data = config->train_signature;
  c.epoch = epoch;
  if (train_book.finished()) {
    ++c.epoch;
  } else {
    c.next = sync() ? window.begin() : train_book.next();
    if (!sync()) c.again = train_book.again();
  }
  return c;
}

// Between epochs: saves when it is time, then begins the next epoch or ends the job.
void MasterState::save_or_go_on() {
  phase = Phase::kSaving;
  if ((save_again = paused)) return;  // until all owners are there
  const bool trained =
      config->task == MasterConfig::Task::kTrain && (!report.epochs.empty() || !config->resume.empty());
  const bool last = config->task == MasterConfig::Task::kEvaluate || !stopping.empty() ||
                    epoch >= config->job.training.epochs;
  const bool due = last || (config->save_every > 0 && epoch % config->save_every == 0);
  const bool save = trained && due && !config->output.empty();
  const bool dump = last && config->task == MasterConfig::Task::kTrain && !config->dump_rows.empty();
  background(
      [save, dump, c = config, context = snapshot_context(), at = cursor()](caf::blocking_actor* b) {
        if (save) save_checkpoint(b, context, c->output, c->job.job.name, at);
        if (dump) dump_rows(b, context, c->dump_rows);
      },
      [this, save, last] {
        if (save) event(fmt::format("saved to {}", config->output));
        if (last)
          finish();
        else if (!stopping.empty())
          save_or_go_on();
        else
          begin_epoch(epoch + 1, 0, {});
      });
}

}  // namespace embers
