// Who is given which minibatches, and what becomes of them.
#include <algorithm>

#include "master/master_state.h"

namespace embers {
namespace {

constexpr uint32_t kEvaluationLease = 4;  // minibatches

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

StageTimes read_stages(wire::DoneRequest::Reader request) {
  StageTimes stages;
  const auto seconds = request.getStageSeconds();
  for (unsigned i = 0; i < StageTimes::kStages && i < seconds.size(); ++i) stages.seconds[i] = seconds[i];
  return stages;
}

}  // namespace

void MasterState::lease(uint64_t incarnation, Promise<wire::LeaseReply> promise) {
  if (error) {
    told.insert(incarnation);
    throw Error(ErrorCode::kJobFailed, error->what());
  }
  if (!members.find(incarnation))
    fail(ErrorCode::kFenced, "the master has given up on this worker: start a new one");
  waiting_leases.push_back({incarnation, promise});
  serve_leases();
}

// A job that stops still finishes the version it has begun, or (async: see stop()) what some owner may have
// applied already.
bool MasterState::may_grant() const {
  if (stopping.empty()) return true;
  return phase == Phase::kTraining && (!sync() || train_book.next() != window.begin());
}

uint32_t MasterState::most_to_grant(uint64_t incarnation) {
  const auto& training = config->job.training;
  if (phase == Phase::kEvaluating) {  // a share that leaves something for the others
    const uint64_t workers = std::max<uint64_t>(members.workers(), 1);
    const uint64_t share = evaluation_window(training.batch_size, workers) / (2 * workers);
    return static_cast<uint32_t>(std::min<uint64_t>(share, kEvaluationLease));
  }
  if (sync()) return 1;
  if (!bounded()) return training.minibatches_per_lease;
  const uint64_t room = clocks.room(incarnation, train_book.held_by(incarnation));
  return static_cast<uint32_t>(std::min<uint64_t>(room, training.minibatches_per_lease));
}

void MasterState::serve_leases() {
  for (const WaitingLease& w : waiting_leases) clocks.add(w.incarnation);  // all, before any is granted
  std::vector<WaitingLease> still;
  for (WaitingLease& w : waiting_leases) {
    if (phase == Phase::kEnding) {
      w.promise.deliver(lease_reply(wire::LeaseReply::Kind::END));
      continue;
    }
    const bool evaluating = phase == Phase::kEvaluating;
    std::optional<LeaseBook::Lease> granted;
    if ((evaluating || phase == Phase::kTraining) && !paused && may_grant())
      granted = book().grant(w.incarnation, most_to_grant(w.incarnation));
    if (granted)
      w.promise.deliver(evaluating ? lease_reply(wire::LeaseReply::Kind::EVALUATE, epoch, 0, *granted)
                                   : lease_reply(wire::LeaseReply::Kind::TRAIN, epoch,
                                                 sync() ? window.version() : 0, *granted));
    else
      still.push_back(std::move(w));
  }
  waiting_leases = std::move(still);
}

Message<wire::DoneReply> MasterState::done(const Message<wire::DoneRequest>& message) {
  const auto request = message.get();
  if (error) throw Error(ErrorCode::kJobFailed, error->what());
  Member* member = members.find(request.getIncarnation());
  if (!member) fail(ErrorCode::kFenced, "the master has given up on this worker: start a new one");
  member->last_seen = Clock::now();
  bool accepted = false;
  if (phase == Phase::kTraining || phase == Phase::kEvaluating) {
    if (request.getReturned()) {
      accepted = book().give_back(request.getLease(), request.getMinibatch(), request.getAttempt());
      report.released += accepted;
    } else {
      read_evaluated(request);  // a malformed request must not count as done
      accepted = book().complete(request.getLease(), request.getMinibatch(), request.getAttempt());
      if (accepted) {
        report.skipped_rows += request.getSkipped();
        report.direct_rows += request.getDirectRows();
        report.owner_rows += request.getOwnerRows();
        phase == Phase::kTraining ? trained(request) : evaluated(message);
      }
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
  report.late_pulls += request.getLatePulls();
  recent.add(read_evaluated(request));
  epoch_keys += request.getKeys();
  epoch_cache_hits += request.getCacheHits();
  epoch_stages.add(read_stages(request));
  clocks.advance(request.getIncarnation());
  if (sync()) window.complete(request.getMinibatch(), request.getAttempt(), request.getExamples());
}

// The evaluator counts it. More is leased as it gets on.
void MasterState::evaluated(const Message<wire::DoneRequest>& message) {
  evaluation_examples += message.get().getExamples();
  self->request(evaluator, caf::infinite, message)
      .then(
          [this](uint64_t counted) {
            if (over_or_failed()) return;
            evaluation_counted = counted;
            limit_evaluation();
            serve_leases();
          },
          [this](caf::error& e) { fail_job(from_caf(e)); });
}

void MasterState::limit_evaluation() {
  eval_book.set_limit(evaluation_counted +
                      evaluation_window(config->job.training.batch_size, members.workers()));
}

}  // namespace embers
