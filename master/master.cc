// The course of a job: its start, what moves it on, versions, and the actor.
#include "master/master.h"

#include <algorithm>

#include "actors/owner/norms.h"
#include "master/master_state.h"

namespace embers {

void MasterState::start(Self pointer, std::shared_ptr<const MasterConfig> c) {
  self = pointer;
  config = std::move(c);
  model_signature = signature(config->model);
  clips_by_norm = storage::Clipper(config->model.tables).needs_norms();
  beat = std::chrono::duration<double>(std::min(1.0, config->job.job.heartbeat_timeout / 4));
  report.job = config->job.job.name;
  report.mode = sync() ? "sync" : bounded() ? "bounded" : "async";
  report.total.loss = report.total.test_loss = report.total.auc = report.total.accuracy = kNaN;
  for (const OwnerHandles& owner : config->local_owners)
    owners.emplace(static_cast<uint32_t>(owners.size()), owner);
  tick();
}

void MasterState::maybe_start() {
  if (phase != Phase::kGathering || owners.size() < config->shards || members.workers() < config->workers)
    return;
  phase = Phase::kPreparing;
  auto at = std::make_shared<Cursor>();
  background(
      [at, here = cursor(), context = snapshot_context(), c = config](caf::blocking_actor* b) {
        if (!c->resume.empty())
          *at = load_checkpoint(b, context, c->resume, c->task == MasterConfig::Task::kTrain);
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

// Moves the state machine on if what it waits for has happened. Called after every event that it may be
// waiting for.
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
  ask_owners<wire::NormsRequest>(window.norms_request(), [this](const auto& replies) {
    storage::SquareSums sums;
    for (const auto& m : replies) add(read(m.get()), sums);
    send_commit(values(sums));
  });
}

void MasterState::send_commit(const storage::SquaredNorms& norms) {
  ask_owners<wire::CommitRequest>(window.commit(norms), [this](const auto&) {
    committing = false;
    if (phase != Phase::kTraining) return;
    window.advance();
    train_book.set_limit(window.limit());
    serve_leases();
    after_progress();
  });
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
            caf::actor_cast<caf::actor_addr>(self->current_sender());  // before a promise takes it
        return promised<wire::JoinReply>(self, Kind::kJoinRequest,
                                         [&](auto promise) { state.join(m.get(), sender, promise); });
      },
      [&state, self](const Message<wire::LeaseRequest>& m) {
        return promised<wire::LeaseReply>(
            self, Kind::kLeaseRequest, [&](auto promise) { state.lease(m.get().getIncarnation(), promise); });
      },
      [&state](const Message<wire::DoneRequest>& m) {
        return guarded(Kind::kDoneRequest, [&] { return state.done(m); });
      },
      [&state](const Message<wire::HeartbeatRequest>& m) {
        return guarded(Kind::kHeartbeatRequest, [&] { return state.heartbeat(m.get()); });
      },
      [&state, self](const Message<wire::OwnersRequest>& m) {
        return promised<wire::OwnersReply>(self, Kind::kOwnersRequest,
                                           [&](auto promise) { state.owners_for(m.get(), promise); });
      },
      [&state](const Message<wire::FailRequest>& m) {
        return guarded(Kind::kFailRequest, [&] {
          state.worker_failed(m.get());
          return make_message<wire::Empty>();
        });
      },
      [&state](const Message<wire::LeaveRequest>& m) {
        return guarded(Kind::kLeaveRequest, [&] {
          state.leave(m.get());
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
