// How a job ends: stopped, done or failed.
#include "master/master_state.h"

namespace embers {
namespace {

constexpr auto kEndSeconds = std::chrono::seconds(5);   // for workers to leave
constexpr auto kFailSeconds = std::chrono::seconds(3);  // for members to be told

}  // namespace

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
  answer_owners(Clock::time_point::max());
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
  for (WaitingOwners& w : waiting_owners) {
    told.insert(w.incarnation);
    w.promise.deliver(reply);
  }
  waiting_joins.clear();
  waiting_leases.clear();
  waiting_owners.clear();
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

// A process that the master has given up on cannot end the job of the others.
void MasterState::worker_failed(wire::FailRequest::Reader request) {
  if (request.getIncarnation() != 0 && !members.find(request.getIncarnation()))
    fail(ErrorCode::kFenced, "the master has given up on this process and given its work to others");
  fail_job(Error(error_code(request.getCode()), request.getMessage()));
}

void MasterState::over() {
  phase = Phase::kOver;
  if (!evaluator) return report_end();
  const auto dropped = [this] { report_end(); };
  self->request(evaluator, kFailSeconds, drop_atom::value).then(dropped, [dropped](caf::error&) {
    dropped();
  });
}

void MasterState::report_end() {
  report.workers_joined = members.workers_joined();
  if (config->on_end) config->on_end({error, std::move(report)});
  self->quit();
}

}  // namespace embers
