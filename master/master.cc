// The course of a job: leases, versions, epochs, evaluation, saving, its end.
#include "master/master.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>

#include "actors/norms.h"
#include "master/master_state.h"

namespace embers {
namespace {

constexpr uint32_t kEvaluationLease = 4;                // minibatches
constexpr auto kEndSeconds = std::chrono::seconds(5);   // for workers to leave
constexpr auto kFailSeconds = std::chrono::seconds(3);  // for members to be told
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using begin_atom = caf::atom_constant<caf::atom("begin")>;

Message<wire::LeaseReply> lease_reply(wire::LeaseReply::Kind kind, uint32_t epoch = 0, uint64_t version = 0,
                                      const LeaseBook::Lease& lease = {}) {
  return make_message<wire::LeaseReply>([&](wire::LeaseReply::Builder b) {
    b.setKind(kind);
    b.setLease(lease.id);
    b.setEpoch(epoch);
    b.setVersion(version);
    auto parts = b.initMinibatches(lease.parts.size());
    for (unsigned i = 0; i < lease.parts.size(); ++i) {
      parts[i].setMinibatch(lease.parts[i].minibatch);
      parts[i].setAttempt(lease.parts[i].attempt);
    }
  });
}

EvaluatedMinibatch read_evaluated(wire::DoneRequest::Reader request) {
  const auto scores = read_floats(request.getScores());
  const auto labels = read_floats(request.getLabels());
  const auto records = read_words(request.getRecords());
  return {{scores.begin(), scores.end()},
          {labels.begin(), labels.end()},
          {records.begin(), records.end()},
          request.getLossSum(),
          request.getExamples()};
}

OwnerStats add_up(const std::vector<Message<wire::StatsReply>>& replies) {
  OwnerStats sum;
  for (const auto& m : replies) {
    const auto s = m.get();
    sum.examples = std::max(sum.examples, s.getExamples());
    sum.minibatches = std::max(sum.minibatches, s.getMinibatches());
    sum.version = std::max(sum.version, s.getVersion());
    sum.staleness = std::max(sum.staleness, s.getStaleness());
    sum.duplicates += s.getDuplicates();
    sum.bad_gradients += s.getBadGradients();
    sum.rows += s.getRows();
    sum.resident_bytes += s.getResidentBytes();
  }
  return sum;
}

// An actor that runs `work` when told to begin, answers how it went, and ends.
void run_once(caf::blocking_actor* self, const std::function<void(caf::blocking_actor*)>& work) {
  self->receive([&](begin_atom) -> caf::result<void> {
    try {
      work(self);
      return caf::unit;
    } catch (const Error& e) {
      return to_caf(e);
    } catch (const std::exception& e) {
      return to_caf(Error(ErrorCode::kInternal, e.what()));
    }
  });
}

}  // namespace

void MasterState::start(Self pointer, std::shared_ptr<const MasterConfig> c) {
  self = pointer;
  config = std::move(c);
  model_signature = signature(config->model);
  clips_by_norm = storage::Clipper(config->model.tables).needs_norms();
  beat = std::chrono::duration<double>(std::min(1.0, config->job.job.heartbeat_timeout / 4));
  report.job = config->job.job.name;
  report.mode = sync() ? "sync" : "async";
  report.total.loss = report.total.test_loss = report.total.auc = report.total.accuracy = kNaN;
  for (const OwnerHandles& owner : config->local_owners)
    owners.emplace(static_cast<uint32_t>(owners.size()), owner);
  tick();
}

void MasterState::background(std::function<void(caf::blocking_actor*)> work, std::function<void()> then) {
  const auto helper = self->spawn<caf::detached>(run_once, std::move(work));
  self->request(helper, caf::infinite, begin_atom::value)
      .then(
          [this, then = std::move(then)] {
            if (!over_or_failed()) then();
          },
          [this](caf::error& e) { fail_job(from_caf(e)); });
}

template <class T>
void MasterState::ask_owners(
    const Message<T>& question,
    std::function<void(const std::vector<Message<typename KindOf<T>::Reply>>&)> then) {
  using Reply = Message<typename KindOf<T>::Reply>;
  auto answers = std::make_shared<std::vector<Reply>>(owners.size());
  auto open = std::make_shared<size_t>(owners.size());
  if (owners.empty()) return then(*answers);
  for (const auto& [number, owner] : owners)
    self->request(owner.optimizer, caf::infinite, question)
        .then(
            [this, answers, open, then, shard = number](const Reply& reply) {
              (*answers)[shard] = reply;
              if (--*open == 0 && !over_or_failed()) then(*answers);
            },
            [this, shard = number](caf::error& e) {
              const Error why = from_caf(e);
              fail_job(why.code() == ErrorCode::kUnavailable
                           ? Error(ErrorCode::kLost, fmt::format("lost shard {}: {}", shard, why.what()))
                           : why);
            });
}
template void MasterState::ask_owners<wire::FenceRequest>(
    const Message<wire::FenceRequest>&, std::function<void(const std::vector<Message<wire::Empty>>&)>);

void MasterState::with_stats(std::function<void(const OwnerStats&)> then) {
  ask_owners<wire::StatsRequest>(make_message<wire::StatsRequest>(), [this, then](const auto& replies) {
    stats = add_up(replies);
    then(stats);
  });
}

SnapshotContext MasterState::snapshot_context() const {
  SnapshotContext context{{}, even_shard_map(config->shards, config->job.storage.buckets), config->model};
  for (const auto& [number, owner] : owners) context.owners.push_back(owner);
  return context;
}

// --- start ---------------------------------------------------------------------------------------

void MasterState::maybe_start() {
  if (phase != Phase::kGathering || owners.size() < config->shards || members.workers() < config->workers)
    return;
  phase = Phase::kPreparing;
  auto at = std::make_shared<Cursor>();
  background(
      [at, here = cursor(), context = snapshot_context(), c = config](caf::blocking_actor* b) {
        if (!c->resume.empty()) *at = load_checkpoint(b, context, c->resume);
        if (c->resume.empty()) init_dense(b, context, *c->dense, *c->buffers);
        if (c->task == MasterConfig::Task::kTrain) check_same_epoch(*at, here, c->resume);
        resume_owners(b, context, *at);
      },
      [this, at] {
        report.first_epoch = at->epoch;
        report.total.shards = config->shards;
        with_stats([this, at](const OwnerStats& now) {
          report.total.owners = now;
          alone_since = Clock::now();
          if (config->task == MasterConfig::Task::kEvaluate)
            begin_evaluation();
          else
            begin_epoch(at->epoch, at->next, at->again);
        });
      });
}

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
  epoch_start = Clock::now();
  epoch_first_examples = stats.examples;
  epoch_loss_sum = 0;
  epoch_loss_examples = 0;
  serve_leases();
  after_progress();
}

// --- leases --------------------------------------------------------------------------------------

void MasterState::lease(uint64_t incarnation, Promise<wire::LeaseReply> promise) {
  if (error) {
    told.insert(incarnation);
    throw Error(ErrorCode::kJobFailed, error->what());
  }
  if (!members.find(incarnation)) fail(ErrorCode::kFenced, "the master gave this worker up: start a new one");
  waiting_leases.push_back({incarnation, promise});
  serve_leases();
}

// A job that stops still finishes the version it has begun, or (async: see stop()) what some owner may have
// applied already.
bool MasterState::may_grant() const {
  if (stopping.empty()) return true;
  return phase == Phase::kTraining && (!sync() || train_book.next() != window.begin());
}

void MasterState::serve_leases() {
  std::vector<WaitingLease> still;
  for (WaitingLease& w : waiting_leases) {
    if (phase == Phase::kEnding) {
      w.promise.deliver(lease_reply(wire::LeaseReply::Kind::END));
      continue;
    }
    const bool evaluating = phase == Phase::kEvaluating;
    std::optional<LeaseBook::Lease> granted;
    if ((evaluating || phase == Phase::kTraining) && may_grant()) {
      const uint32_t most = evaluating ? kEvaluationLease
                            : sync()   ? 1
                                       : config->job.training.minibatches_per_lease;
      granted = book().grant(w.incarnation, most);
    }
    if (granted)
      w.promise.deliver(evaluating ? lease_reply(wire::LeaseReply::Kind::EVALUATE, epoch, 0, *granted)
                                   : lease_reply(wire::LeaseReply::Kind::TRAIN, epoch,
                                                 sync() ? window.version() : 0, *granted));
    else
      still.push_back(std::move(w));
  }
  waiting_leases = std::move(still);
}

Message<wire::DoneReply> MasterState::done(wire::DoneRequest::Reader request) {
  if (error) throw Error(ErrorCode::kJobFailed, error->what());
  Member* member = members.find(request.getIncarnation());
  if (!member) fail(ErrorCode::kFenced, "the master gave this worker up: start a new one");
  member->last_seen = Clock::now();
  bool accepted = false;
  if (phase == Phase::kTraining || phase == Phase::kEvaluating) {
    if (request.getReturned()) {
      accepted = book().give_back(request.getLease(), request.getMinibatch(), request.getAttempt());
      report.released += accepted;
    } else {
      const EvaluatedMinibatch checked =
          read_evaluated(request);  // a malformed request must not count as done
      accepted = book().complete(request.getLease(), request.getMinibatch(), request.getAttempt());
      if (accepted) phase == Phase::kTraining ? trained(request) : evaluated(request);
    }
  }
  serve_leases();
  after_progress();
  return make_message<wire::DoneReply>([&](wire::DoneReply::Builder b) { b.setAccepted(accepted); });
}

void MasterState::trained(wire::DoneRequest::Reader request) {
  loss_sum += request.getLossSum();
  epoch_loss_sum += request.getLossSum();
  loss_examples += request.getExamples();
  epoch_loss_examples += request.getExamples();
  report.skipped_rows += request.getSkipped();
  report.late_pulls += request.getLatePulls();
  recent.add(read_evaluated(request));
  if (sync()) window.complete(request.getMinibatch(), request.getAttempt(), request.getExamples());
}

void MasterState::evaluated(wire::DoneRequest::Reader request) {
  report.skipped_rows += request.getSkipped();
  evaluation.add(request.getMinibatch(), read_evaluated(request));
}

// Moves the state machine on when what it waits for has come. Called after everything that may have brought
// it.
void MasterState::after_progress() {
  if (phase == Phase::kTraining && sync() && window.ready() && !committing) return commit();
  if (phase == Phase::kTraining && train_book.finished() && !committing) return end_epoch();
  if (phase == Phase::kTraining && !stopping.empty() && drained()) return end_epoch();
  if (phase == Phase::kEvaluating && (eval_book.finished() || (!stopping.empty() && eval_book.idle())))
    return end_evaluation();
  if (phase == Phase::kEnding && (members.workers() == 0 || Clock::now() > deadline)) return end_owners();
  const auto is_told = [&](const auto& m) { return m.second.owner || told.contains(m.first); };
  const bool all_told =
      owners_to_tell == 0 && std::all_of(members.all().begin(), members.all().end(), is_told);
  if (phase == Phase::kFailed && (all_told || Clock::now() > deadline)) over();
}

bool MasterState::drained() const {
  if (!train_book.idle() || committing) return false;
  return members.workers() == 0 ||
         (sync() ? train_book.next() == window.begin() : train_book.again().empty());
}

void MasterState::commit() {
  committing = true;
  if (!clips_by_norm) return send_commit({});
  ask_owners<wire::NormsRequest>(window.norms_request(epoch), [this](const auto& replies) {
    storage::SquareSums sums;
    for (const auto& m : replies) add(read(m.get()), sums);
    send_commit(values(sums));
  });
}

void MasterState::send_commit(const storage::SquaredNorms& norms) {
  ask_owners<wire::CommitRequest>(window.commit(epoch, norms), [this](const auto&) {
    committing = false;
    if (phase != Phase::kTraining) return;
    window.advance();
    train_book.set_limit(window.limit());
    serve_leases();
    after_progress();
  });
}

// --- epochs --------------------------------------------------------------------------------------

void MasterState::end_epoch() {
  phase = Phase::kSaving;
  const double seconds = std::chrono::duration<double>(Clock::now() - epoch_start).count();
  report.epochs.emplace_back().seconds = seconds;
  // Lost workers may have brought to owners what nobody finished.
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

// The owners' sums without what only some of them applied: that is noted in `partial`, to be finished after a
// resume. What all applied is done.
OwnerStats MasterState::settle(const std::vector<Message<wire::StatsReply>>& replies) {
  std::map<uint64_t, Partial> found;
  for (uint32_t owner = 0; owner < replies.size(); ++owner)
    for (const auto a : replies[owner].get().getApplied()) {
      found[a.getMinibatch()].minibatch = a.getMinibatch();
      found[a.getMinibatch()].owners.push_back(owner);
    }
  const auto by_all = [&](uint64_t minibatch) { return found.at(minibatch).owners.size() == replies.size(); };
  OwnerStats sum = add_up(replies);
  sum.examples = sum.minibatches = 0;
  for (const auto& m : replies) {
    uint64_t examples = m.get().getExamples(), minibatches = m.get().getMinibatches();
    for (const auto a : m.get().getApplied())
      if (!by_all(a.getMinibatch())) {
        examples -= a.getExamples();
        minibatches -= a.getExamples() > 0;  // 0: of an earlier run, not counted here
      }
    sum.examples = std::max(sum.examples, examples);
    sum.minibatches = std::max(sum.minibatches, minibatches);
  }
  partial.clear();
  for (const auto& [minibatch, p] : found)
    if (by_all(minibatch))
      train_book.mark_done(minibatch);
    else
      partial.push_back(p);
  return sum;
}

void MasterState::close_epoch(const OwnerStats& now) {
  Period& period = report.epochs.back();
  period.examples = now.examples - epoch_first_examples;
  period.loss = epoch_loss_examples > 0 ? epoch_loss_sum / static_cast<double>(epoch_loss_examples) : kNaN;
  period.test_loss = period.auc = period.accuracy = kNaN;
  period.workers = members.workers();
  period.shards = config->shards;
  period.owners = now;
  report.total.examples += period.examples;
  report.total.seconds += period.seconds;
  report.total.loss = period.loss;
  report.total.workers = period.workers;
  report.total.owners = now;
  // Without workers a stop leaves pushes behind that were never finished, or never committed.
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
  evaluation = {};
  evaluation_start = Clock::now();
  eval_book = LeaseBook(config->test_minibatches);
  serve_leases();
  after_progress();
}

void MasterState::end_evaluation() {
  const bool whole = eval_book.finished();
  phase = Phase::kSaving;
  const Evaluation::Metrics metrics = evaluation.metrics();
  const auto set = [&](Period& p) {
    p.test_loss = metrics.loss;
    p.auc = metrics.auc;
    p.accuracy = metrics.accuracy;
  };
  if (whole) {
    set(report.total);
    if (config->task == MasterConfig::Task::kEvaluate) {
      report.total.examples = metrics.examples;
      report.total.seconds = std::chrono::duration<double>(Clock::now() - evaluation_start).count();
      report.total.workers = members.workers();
    }
    if (!report.epochs.empty()) set(report.epochs.back());
    event(fmt::format("{}: {} test examples, loss {:.4f}, AUC {:.4f}, accuracy {:.4f}",
                      epoch > 0 ? fmt::format("epoch {}", epoch) : "evaluation", metrics.examples,
                      metrics.loss, metrics.auc, metrics.accuracy));
  }
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

// Between epochs: saves when it is time, then the next epoch or the end.
void MasterState::save_or_go_on() {
  phase = Phase::kSaving;
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

// --- end -----------------------------------------------------------------------------------------

void MasterState::stop(const std::string& why) {
  if (!stopping.empty() || phase >= Phase::kEnding) return;
  stopping = report.stopped_by = why;
  event(fmt::format("{}: finishing what is under way{}", why, config->output.empty() ? "" : ", then saving"));
  if (phase == Phase::kGathering) return finish();
  if (!sync()) train_book.set_limit(train_book.next());
  serve_leases();
  after_progress();
}

void MasterState::finish() {
  phase = Phase::kEnding;
  deadline = Clock::now() + kEndSeconds;
  for (WaitingJoin& w : std::exchange(waiting_joins, {}))
    w.promise.deliver(to_caf(Error(ErrorCode::kJobFailed, "the job ended before it began: " + stopping)));
  serve_leases();
  after_progress();
}

void MasterState::end_owners() {
  phase = Phase::kOver;
  const auto ok = make_message<wire::EndRequest>([](wire::EndRequest::Builder b) { b.setOk(true); });
  auto open = std::make_shared<size_t>(owners.size());
  const auto answered = [this, open] {
    if (--*open == 0) over();
  };
  for (const auto& [number, owner] : owners)
    self->request(owner.optimizer, kEndSeconds, ok)
        .then([answered](const Message<wire::Empty>&) { answered(); },
              [answered](caf::error&) { answered(); });
  if (owners.empty()) over();
}

void MasterState::fail_job(const Error& why) {
  if (phase >= Phase::kEnding) return;
  phase = Phase::kFailed;
  error = why;
  deadline = Clock::now() + kFailSeconds;
  const caf::error reply = to_caf(Error(ErrorCode::kJobFailed, why.what()));
  for (WaitingJoin& w : waiting_joins) w.promise.deliver(reply);
  for (WaitingLease& w : waiting_leases) {
    told.insert(w.incarnation);
    w.promise.deliver(reply);
  }
  waiting_joins.clear();
  waiting_leases.clear();
  const auto end = make_message<wire::EndRequest>([&](wire::EndRequest::Builder b) {
    b.setOk(false);
    b.setMessage(why.what());
  });
  for (const auto& [number, owner] : owners) {
    ++owners_to_tell;
    const auto told_one = [this] {
      --owners_to_tell;
      after_progress();
    };
    self->request(owner.optimizer, kFailSeconds, end)
        .then([told_one](const Message<wire::Empty>&) { told_one(); },
              [told_one](caf::error&) { told_one(); });
  }
  after_progress();
}

// A process that was given up on does not end the job of the others.
void MasterState::worker_failed(wire::FailRequest::Reader request) {
  if (request.getIncarnation() != 0 && !members.find(request.getIncarnation()))
    fail(ErrorCode::kFenced, "the master gave this process up; its work went to others");
  fail_job(Error(error_code(request.getCode()), request.getMessage()));
}

void MasterState::over() {
  phase = Phase::kOver;
  report.workers_joined = members.workers_joined();
  if (config->on_end) config->on_end({error, std::move(report), std::move(evaluation)});
  self->quit();
}

// --- the actor -----------------------------------------------------------------------------------

namespace {

template <class Reply, class Body>
caf::result<Message<Reply>> promised(MasterState::Self self, Kind kind, Body&& body) {
  auto promise = self->template make_response_promise<Message<Reply>>();
  guarded(
      kind, [&] { body(promise); }, [&](const Error& e) { promise.deliver(to_caf(e)); });
  return promise;
}

MasterImpl::behavior_type master_behavior(MasterState::Self self,
                                          std::shared_ptr<const MasterConfig> config) {
  MasterState& state = self->state;
  self->set_down_handler([self](caf::down_msg& down) { self->state.down(down); });
  state.start(self, std::move(config));
  return {
      [&state](const Message<wire::JobRequest>&) {
        return guarded(Kind::kJobRequest, [&] { return state.describe_job(); });
      },
      [&state, self](const Message<wire::JoinRequest>& m) {
        const caf::actor_addr sender =
            caf::actor_cast<caf::actor_addr>(self->current_sender());  // a promise takes it
        return promised<wire::JoinReply>(self, Kind::kJoinRequest,
                                         [&](auto promise) { state.join(m.get(), sender, promise); });
      },
      [&state, self](const Message<wire::LeaseRequest>& m) {
        return promised<wire::LeaseReply>(
            self, Kind::kLeaseRequest, [&](auto promise) { state.lease(m.get().getIncarnation(), promise); });
      },
      [&state](const Message<wire::DoneRequest>& m) {
        return guarded(Kind::kDoneRequest, [&] { return state.done(m.get()); });
      },
      [&state](const Message<wire::HeartbeatRequest>& m) {
        return guarded(Kind::kHeartbeatRequest, [&] { return state.heartbeat(m.get()); });
      },
      [&state](const Message<wire::FailRequest>& m) {
        return guarded(Kind::kFailRequest, [&] {
          state.worker_failed(m.get());
          return make_message<wire::Empty>();
        });
      },
      [&state](const Message<wire::LeaveRequest>& m) {
        return guarded(Kind::kLeaveRequest, [&] {
          state.leave(m.get().getIncarnation());
          return make_message<wire::Empty>();
        });
      },
      [&state](stop_atom, const std::string& why) { state.stop(why); },
      [&state](tick_atom) { state.tick(); },
  };
}

}  // namespace

LocalMasterActor spawn_master(caf::actor_system& system, std::shared_ptr<const MasterConfig> config) {
  return caf::actor_cast<LocalMasterActor>(system.spawn(master_behavior, std::move(config)));
}

}  // namespace embers
