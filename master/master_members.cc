// Who is in the job: joins, heartbeats, losses.
#include <algorithm>

#include "master/master_state.h"

namespace embers {
namespace {

void write_owner_list(capnp::List<wire::JoinReply::Owner>::Builder owners, const MasterConfig& config,
                      const Membership& members) {
  for (unsigned i = 0; i < config.local_owners.size(); ++i) {
    write_texts(owners[i].initEndpoints(config.local_endpoints.size()), config.local_endpoints);
    owners[i].setBootId(config.boot_id);
  }
  for (const auto& [incarnation, member] : members.all()) {
    if (!member.owner) continue;
    write_texts(owners[member.number].initEndpoints(member.endpoints.size()), member.endpoints);
    owners[member.number].setBootId(member.boot_id);
  }
}

std::string worker_at(wire::JoinRequest::Reader request) {
  return fmt::format("worker pid {} on {}", request.getPid(), request.getHost().cStr());
}

}  // namespace

Message<wire::JobReply> MasterState::describe_job() const {
  if (error) throw Error(ErrorCode::kJobFailed, error->what());
  const job::JobText& source = config->job.source;
  return make_message<wire::JobReply>([&](wire::JobReply::Builder b) {
    b.setJob(config->run);
    b.setPath(source.path);
    b.setText(source.text);
    write_texts(b.initOverrides(source.overrides.size()), source.overrides);
    b.setIndexDir(config->index_dir);
    b.setEvaluates(config->task == MasterConfig::Task::kEvaluate);
  });
}

void MasterState::join(wire::JoinRequest::Reader request, const caf::actor_addr& sender,
                       Promise<wire::JoinReply> promise) {
  if (error) throw Error(ErrorCode::kJobFailed, error->what());
  Member member;
  member.owner = request.getRole() == wire::Role::OWNER;
  member.host = request.getHost();
  member.pid = request.getPid();
  member.endpoints = read_texts(request.getEndpoints());
  member.boot_id = request.getBootId();
  member.sender = sender;
  member.more = request.getMore();
  // Whoever is refused leaves nothing behind: everything is checked before anything is changed.
  member.owner ? check_owner(member) : check_worker(request);
  if (!member.owner) accept_numeric_settings(request);
  const auto place = member.owner ? free_place() : std::nullopt;
  Member& added = members.add(std::move(member), place);
  if (added.owner) {
    try {
      place ? take_over(added) : join_owner(added);
    } catch (const Error&) {
      members.remove(added.incarnation);
      throw;
    }
  }
  self->monitor(added.sender);
  event(fmt::format("{} joined", added.describe()));
  if (added.owner) {
    promise.deliver(join_reply(added));
    answer_joins();
  } else {
    alone_since = Clock::now();
    waiting_joins.push_back({added.incarnation, promise});
    answer_joins();
  }
  maybe_start();
}

void MasterState::join_owner(Member& member) { owners[member.number] = connect_owner(member); }

OwnerHandles MasterState::connect_owner(const Member& member) {
  OwnerHandles handles = config->connect_owner(member.endpoints, member.incarnation);
  for (const caf::actor_addr& link : {handles.optimizer.address(), handles.shard.address()}) {
    owner_links[link] = member.number;
    self->monitor(link);
  }
  return handles;
}

// A process with more owners than there are places is refused as a whole, before the first of them joins.
// Otherwise some of its owners would have to leave again, as lost owners. So places are kept for the owners
// of other processes that have begun to join.
void MasterState::check_owner(const Member& joining) const {
  const size_t lost = std::count_if(away.begin(), away.end(), [](const auto& a) { return !a.second.joined; });
  const size_t open = config->shards - owners.size() - away.size() + lost, kept = members.kept_from(joining),
               come = size_t{1} + joining.more;
  if (open == 0)
    fail(ErrorCode::kInvalid, "this job has {} shards and all have joined{}", config->shards,
         config->model.has_embeddings() ? ""
                                        : " (its model has no Embedding layer and needs no shard process)");
  if (kept + come > open)
    fail(ErrorCode::kInvalid,
         "this job has {} shards, of which {} {} not joined yet{}: a process with {} owner{} does not fit "
         "(--owners)",
         config->shards, open, open == 1 ? "has" : "have",
         kept == 0 ? "" : fmt::format(" (places kept for processes that are still joining: {})", kept), come,
         come == 1 ? "" : "s");
}

void MasterState::check_worker(wire::JoinRequest::Reader request) const {
  const std::string where = worker_at(request);
  if (const std::string d = signature_difference(model_signature, read_texts(request.getModel())); !d.empty())
    fail(ErrorCode::kMismatch, "the model differs: {} ({})", d, where);
  check_settings(read_texts(request.getSettings()), where);
  if (!sync()) return;
  if (const auto differences = numeric_differences(request); !differences.empty())
    fail(ErrorCode::kMismatch,
         "{}; a sync job gives the same weights only with the same settings on all workers",
         differences.front());
}

// Of a worker that has passed all checks. The first one decides; when it has gone before the job starts,
// nothing was computed with its settings, and the next one does.
void MasterState::accept_numeric_settings(wire::JoinRequest::Reader request) {
  if (phase == Phase::kGathering && members.workers() == 0)
    numeric_settings = read_texts(request.getNumeric());
  for (const std::string& difference : numeric_differences(request)) event(difference);
}

// Between the worker and the first one, in words.
std::vector<std::string> MasterState::numeric_differences(wire::JoinRequest::Reader request) const {
  if (phase == Phase::kGathering && members.workers() == 0) return {};
  const auto theirs = read_texts(request.getNumeric());
  std::vector<std::string> differences;
  for (size_t i = 0; i < std::max(theirs.size(), numeric_settings.size()); ++i) {
    const std::string a = i < numeric_settings.size() ? numeric_settings[i] : "nothing";
    const std::string b = i < theirs.size() ? theirs[i] : "nothing";
    if (a != b)
      differences.push_back(
          fmt::format("numeric settings differ: {} at the first worker, {} at {}", a, b, worker_at(request)));
  }
  return differences;
}

// With different values or data, a worker would compute minibatches other than those that are counted.
void MasterState::check_settings(const std::vector<std::string>& theirs, const std::string& where) const {
  const auto first_missing = [](const std::vector<std::string>& lines, const std::vector<std::string>& from) {
    const auto it = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return std::find(from.begin(), from.end(), line) == from.end();
    });
    return it == lines.end() ? std::string("no such value") : *it;
  };
  if (theirs == config->settings) return;
  fail(ErrorCode::kMismatch, "the job differs: {} at the master, {} at the worker ({})",
       first_missing(config->settings, theirs), first_missing(theirs, config->settings), where);
}

void MasterState::answer_joins() {
  if (owners.size() < config->shards || paused) return;
  for (WaitingJoin& w : waiting_joins)
    if (const Member* member = members.find(w.incarnation)) w.promise.deliver(join_reply(*member));
  waiting_joins.clear();
}

Message<wire::JoinReply> MasterState::join_reply(const Member& member) const {
  return make_message<wire::JoinReply>([&](wire::JoinReply::Builder b) {
    b.setIncarnation(member.incarnation);
    b.setNumber(member.number);
    auto tables = b.initTables(config->model.tables.size());
    for (unsigned i = 0; i < config->model.tables.size(); ++i) write(tables[i], config->model.tables[i]);
    const OwnerMap map = snapshot_context().map;
    b.setMapVersion(map.version);
    auto buckets = b.initOwnerOfBucket(map.buckets());
    for (unsigned i = 0; i < map.buckets(); ++i) buckets.set(i, map.owner_of_bucket[i]);
    b.setTakesOver(member.owner && away.contains(member.number));
    b.setServerUser(config->server_login.user);
    b.setServerPassword(config->server_login.password);
    if (!member.owner) write_owner_list(b.initOwners(config->shards), *config, members);
  });
}

Message<wire::OwnersReply> MasterState::owners_reply() const {
  return make_message<wire::OwnersReply>([&](wire::OwnersReply::Builder b) {
    b.setMapVersion(map_version);
    write_owner_list(b.initOwners(config->shards), *config, members);
  });
}

Message<wire::HeartbeatReply> MasterState::heartbeat(wire::HeartbeatRequest::Reader request) {
  if (request.getIncarnation() != 0) {
    Member* member = members.find(request.getIncarnation());
    if (error) {
      told.insert(request.getIncarnation());
      throw Error(ErrorCode::kJobFailed, error->what());
    }
    if (!member)
      fail(ErrorCode::kFenced,
           "the master has given up on this process after {} s without a sign of life, and given its work to "
           "others",
           config->job.job.heartbeat_timeout);
    member->last_seen = Clock::now();
    if (request.getStop() && member->owner) stop(member->describe() + " was asked to stop");
  }
  return make_message<wire::HeartbeatReply>([&](wire::HeartbeatReply::Builder b) {
    b.setInterval(beat.count());
    b.setTimeout(config->job.job.heartbeat_timeout);
    b.setMapVersion(map_version);
  });
}

// A worker that cannot go on may have pushed parts of its work: it is lost. Others leave when they are done.
void MasterState::leave(wire::LeaveRequest::Reader request) {
  const uint64_t incarnation = request.getIncarnation();
  Member* member = members.find(incarnation);
  if (!member) return;
  if (request.hasReason() && request.getReason().size() > 0)
    return lose_worker(incarnation, request.getReason());
  event(fmt::format("{} left", member->describe()));
  forget_worker(incarnation);
  book().revoke(incarnation);
  serve_leases();
  after_progress();
}

void MasterState::down(const caf::down_msg& down) {
  if (Member* member = members.find(down.source)) {
    const std::string why = from_caf(down.reason).what();
    member->owner ? lose_owner(member->number, why) : lose_worker(member->incarnation, why);
  } else if (const auto link = owner_links.find(down.source); link != owner_links.end()) {
    lose_owner(link->second, from_caf(down.reason).what());
  }
}

// It is fenced at every owner first, so that nothing from it arrives after others have begun its work.
void MasterState::lose_worker(uint64_t incarnation, const std::string& why) {
  const std::string who = members.find(incarnation)->describe();
  forget_worker(incarnation);
  if (over_or_failed()) return after_progress();  // all members go
  event(fmt::format("lost {}: {}", who, why));
  ++report.workers_lost;
  if (phase == Phase::kEnding) return after_progress();
  ask_owners<wire::FenceRequest>(
      make_message<wire::FenceRequest>([&](wire::FenceRequest::Builder b) { b.setIncarnation(incarnation); }),
      [this, incarnation](const auto&) {
        const size_t released = train_book.revoke(incarnation) + eval_book.revoke(incarnation);
        report.released += released;
        if (released > 0) event(fmt::format("{} of its minibatches are leased again", released));
        serve_leases();
        after_progress();
      });
}

void MasterState::forget_worker(uint64_t incarnation) {
  members.remove(incarnation);
  clocks.remove(incarnation);
  std::erase_if(waiting_joins, [&](WaitingJoin& w) {
    if (w.incarnation != incarnation) return false;
    w.promise.deliver(to_caf(Error(ErrorCode::kFenced, "the master has given up on this worker")));
    return true;
  });
  std::erase_if(waiting_leases, [&](WaitingLease& w) {
    if (w.incarnation != incarnation) return false;
    w.promise.deliver(to_caf(Error(ErrorCode::kFenced, "the master has given up on this worker")));
    return true;
  });
  std::erase_if(waiting_owners, [&](WaitingOwners& w) {
    if (w.incarnation != incarnation) return false;
    w.promise.deliver(to_caf(Error(ErrorCode::kFenced, "the master has given up on this worker")));
    return true;
  });
  alone_since = Clock::now();
}

void MasterState::tick() {
  // If this process was itself suspended, it cannot tell who was silent meanwhile.
  const Clock::time_point now = Clock::now();
  if (now - std::exchange(last_tick, now) > silence() / 2) members.grant_time(now);
  self->delayed_send(self, std::chrono::duration_cast<std::chrono::milliseconds>(beat), tick_atom::value);
  if (phase == Phase::kEnding || phase == Phase::kFailed) return after_progress();
  check_silence();
  check_away();
  report_progress();
}

void MasterState::check_silence() {
  // A process that is still joining does not know its incarnation, so heartbeats cannot cover it. Its
  // connection is watched instead.
  for (const WaitingJoin& w : waiting_joins)
    if (Member* member = members.find(w.incarnation)) member->last_seen = Clock::now();
  while (Member* silent = members.silent_since(Clock::now() - silence())) {
    const std::string why = fmt::format("no sign of life for {} s", config->job.job.heartbeat_timeout);
    silent->owner ? lose_owner(silent->number, why) : lose_worker(silent->incarnation, why);
    if (over_or_failed()) return;
  }
  const bool needs_workers = phase == Phase::kTraining || phase == Phase::kEvaluating;
  const std::chrono::duration<double> alone = Clock::now() - alone_since;
  if (needs_workers && members.workers() == 0 && alone.count() > config->job.job.worker_timeout)
    fail_job(Error(ErrorCode::kLost,
                   fmt::format("no worker is left, and none has joined for {} s (job.worker_timeout)",
                               config->job.job.worker_timeout)));
}

void MasterState::report_progress() {
  if (!config->on_progress || stats_pending || (phase != Phase::kTraining && phase != Phase::kEvaluating))
    return;
  if (loss_examples == 0 && phase == Phase::kTraining) return;
  stats_pending = true;
  with_stats([this](const OwnerStats&) {
    stats_pending = false;
    Progress p;
    p.epoch = epoch;
    p.epochs = config->job.training.epochs;
    p.evaluating = phase == Phase::kEvaluating;
    p.minibatches = book().done();
    p.total_minibatches = book().total();
    const auto since = p.evaluating ? evaluation_start : epoch_start;
    p.examples = p.evaluating ? evaluation_examples : stats.examples;
    p.seconds = std::chrono::duration<double>(Clock::now() - since).count();
    const uint64_t before = p.evaluating ? 0 : epoch_first_examples;
    if (p.seconds > 0) p.examples_per_second = static_cast<double>(p.examples - before) / p.seconds;
    p.loss = recent.loss();
    p.auc = recent.auc();
    p.workers = members.workers();
    p.owners = stats;
    config->on_progress(p);
  });
}

}  // namespace embers
