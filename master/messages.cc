#include "master/messages.h"

#include <array>

#include "actors/owner/norms.h"
#include "actors/owner/staleness.h"
#include "schema/messages/codec.h"

namespace embers {
namespace {

void fill(wire::CommitRequest::Builder b, const Commit& commit) {
  b.setVersion(commit.version);
  auto parts = b.initMinibatches(commit.parts.size());
  for (unsigned i = 0; i < commit.parts.size(); ++i) {
    parts[i].setMinibatch(commit.parts[i].minibatch);
    parts[i].setAttempt(commit.parts[i].attempt);
    parts[i].setWeight(commit.parts[i].weight);
  }
  write_norms(b, commit.norms);
}

void fill(wire::StatusReply::Group::Builder b, const Status::Group& group) {
  b.setWanted(group.wanted);
  b.setJoined(group.joined);
  b.setLost(group.lost);
}

void fill(wire::StatusReply::Member::Builder b, const Status::Member& m) {
  b.setName(m.name);
  b.setRole(m.role);
  b.setNumber(m.number);
  b.setLabel(m.label);
  b.setHost(m.host);
  b.setPid(m.pid);
  b.setState(m.state);
  b.setLastSign(m.last_sign_s);
  b.setJoined(m.joined_s);
  b.setMinibatches(m.minibatches);
  b.setExamples(m.examples);
  b.setRows(m.rows);
  b.setBytes(m.bytes);
  b.setPullsPerSecond(m.pulls_per_s);
  b.setPushesPerSecond(m.pushes_per_s);
  b.setLag(m.lag);
}

// Owners of this process are reached at the master's own endpoints.
void write_addresses(capnp::List<wire::JoinReply::Owner>::Builder owners,
                     const std::vector<Reply::Address>& addresses, const MasterConfig& config) {
  for (unsigned i = 0; i < addresses.size(); ++i) {
    const bool local = i < config.local_owners.size();
    const auto& endpoints = local ? config.local_endpoints : addresses[i].endpoints;
    write_texts(owners[i].initEndpoints(endpoints.size()), endpoints);
    owners[i].setBootId(local ? config.boot_id : addresses[i].boot_id);
  }
}

}  // namespace

Event::Join read(wire::JoinRequest::Reader request) {
  Event::Join e;
  e.owner = request.getRole() == wire::Role::OWNER;
  e.reader = request.getRole() == wire::Role::READER;
  e.host = request.getHost();
  e.pid = request.getPid();
  e.endpoints = read_texts(request.getEndpoints());
  e.boot_id = request.getBootId();
  e.model = read_texts(request.getModel());
  e.numeric = read_texts(request.getNumeric());
  e.settings = read_texts(request.getSettings());
  e.more = request.getMore();
  e.token = request.getToken();
  e.label = request.getLabel();
  e.window = request.getWindow();
  return e;
}

Event::Lease read(wire::LeaseRequest::Reader request) {
  return {0, request.getIncarnation(), request.getReceived()};
}

Event::Begin read(wire::BeginRequest::Reader request) {
  return {0, request.getIncarnation(), request.getLease(), request.getMinibatch(), request.getAttempt()};
}

Event::Done read(wire::DoneRequest::Reader request) {
  Event::Done e;
  e.incarnation = request.getIncarnation();
  e.lease = request.getLease();
  e.minibatch = request.getMinibatch();
  e.attempt = request.getAttempt();
  e.returned = request.getReturned();
  e.examples = request.getExamples();
  e.skipped = request.getSkipped();
  e.late_pulls = request.getLatePulls();
  e.keys = request.getKeys();
  e.cache_hits = request.getCacheHits();
  e.direct_rows = request.getDirectRows();
  e.owner_rows = request.getOwnerRows();
  e.loss_sum = request.getLossSum();
  const auto seconds = request.getStageSeconds();
  for (unsigned i = 0; i < StageTimes::kStages && i < seconds.size(); ++i) e.stages.seconds[i] = seconds[i];
  return e;
}

Event::Heartbeat read(wire::HeartbeatRequest::Reader request) {
  return {0,
          request.getIncarnation(),
          request.getStop(),
          {request.getRows(), request.getBytes(), request.getPulls(), request.getPushes(),
           request.getApplied(), request.getWaiting()}};
}

Event::Owners read(wire::OwnersRequest::Reader request) {
  return {0, request.getIncarnation(), request.getMapVersion()};
}

Event::Orders read(wire::OrderRequest::Reader request) {
  return {0, request.getIncarnation(), request.getReceived(), request.getCarriedOut()};
}

Event::Fail read(wire::FailRequest::Reader request) {
  return {0, request.getIncarnation(), Error(error_code(request.getCode()), request.getMessage())};
}

Event::Leave read(wire::LeaveRequest::Reader request) {
  return {0, request.getIncarnation(), request.getReason()};
}

Event::Scale read(wire::ScaleRequest::Reader request) { return {0, request.getWorkers()}; }

Event::Drain read(wire::DrainRequest::Reader request) { return {0, read_texts(request.getMembers())}; }

Event::End read(wire::StopRequest::Reader request) { return {0, request.getSave(), request.getWhy()}; }

Event::Checkpoint read(wire::CheckpointRequest::Reader request) {
  return {0, request.getId(), request.getDirectory()};
}

OwnerAnswer read_answer(wire::Empty::Reader) { return std::monostate(); }

OwnerAnswer read_answer(wire::NormsReply::Reader reply) { return read(reply); }

OwnerAnswer read_answer(wire::CommitReply::Reader) { return std::monostate(); }

OwnerAnswer read_answer(wire::StatsReply::Reader reply) {
  OwnerCounts counts;
  counts.sums.examples = reply.getExamples();
  counts.sums.minibatches = reply.getMinibatches();
  counts.sums.version = reply.getVersion();
  counts.sums.staleness = read_staleness(reply);
  counts.sums.duplicates = reply.getDuplicates();
  counts.sums.bad_gradients = reply.getBadGradients();
  counts.sums.rows = reply.getRows();
  counts.sums.resident_bytes = reply.getResidentBytes();
  for (const auto a : reply.getApplied()) counts.applied.push_back({a.getMinibatch(), a.getExamples()});
  return counts;
}

Message<wire::JobReply> job_reply(const MasterConfig& config, bool wants_model) {
  const job::JobText& source = config.job.source;
  return make_message<wire::JobReply>([&](wire::JobReply::Builder b) {
    b.setJob(config.run);
    b.setPath(source.path);
    b.setText(source.text);
    write_texts(b.initOverrides(source.overrides.size()), source.overrides);
    b.setIndexDir(config.index_dir);
    b.setEvaluates(config.task == JobConfig::Task::kEvaluate);
    b.setWantsModel(wants_model);
    b.setVersion(EMBERS_VERSION);
  });
}

Message<wire::StatusReply> write(const Status& s) {
  return make_message<wire::StatusReply>([&](wire::StatusReply::Builder b) {
    b.setJob(s.job);
    b.setRun(s.id);
    b.setTask(s.task);
    b.setMode(s.mode);
    b.setPhase(s.phase);
    b.setError(s.error);
    b.setStopping(s.stopping);
    b.setElapsed(s.elapsed_s);
    b.setRemaining(s.remaining_s);
    b.setEpoch(s.epoch);
    b.setEpochs(s.epochs);
    b.setVersion(s.version);
    b.setMinibatchesDone(s.minibatches_done);
    b.setMinibatches(s.minibatches);
    b.setExamples(s.examples);
    b.setExamplesPerSecond(s.examples_per_s);
    b.setLoss(s.loss);
    b.setAuc(s.auc);
    if (s.evaluation) {
      auto e = b.initEvaluation();
      e.setLoss(s.evaluation->loss);
      e.setAuc(s.evaluation->auc);
      e.setAccuracy(s.evaluation->accuracy);
    }
    b.setStalenessMean(s.staleness_mean);
    b.setStalenessMax(s.staleness_max);
    fill(b.initWorkers(), s.workers);
    fill(b.initShards(), s.shards);
    auto members = b.initMembers(s.members.size());
    for (unsigned i = 0; i < s.members.size(); ++i) fill(members[i], s.members[i]);
  });
}

namespace {

// All but who it is for.
void fill(wire::JoinReply::Builder b, const Reply::Join& reply, const MasterConfig& config) {
  auto tables = b.initTables(config.model.tables.size());
  for (unsigned i = 0; i < config.model.tables.size(); ++i) write(tables[i], config.model.tables[i]);
  const OwnerMap map = even_owner_map(config.shards, config.job.storage.buckets, reply.map_version);
  b.setMapVersion(map.version);
  auto buckets = b.initOwnerOfBucket(map.buckets());
  for (unsigned i = 0; i < map.buckets(); ++i) buckets.set(i, map.owner_of_bucket[i]);
  if (!reply.reader) {
    b.setServerUser(config.server_login.user);
    b.setServerPassword(config.server_login.password);
  }
  if (reply.owners) write_addresses(b.initOwners(reply.owners->size()), *reply.owners, config);
}

// Of a reply that goes out thousands of times a second; `fill` sets all its fields, which are of fixed size.
template <class T, class Fill>
Message<T> of_form(const Fill& fill) {
  thread_local MessageForm<T> form;
  fill(form.root());
  return form.message();
}

}  // namespace

Message<wire::JoinReply> JoinReplies::write(const Reply::Join& reply, const MasterConfig& config) {
  if (!form_ || reply.owners != owners_ || reply.map_version != map_version_ || reply.reader != reader_) {
    form_ = std::make_unique<MessageForm<wire::JoinReply>>();
    fill(form_->root(), reply, config);
    owners_ = reply.owners;
    map_version_ = reply.map_version;
    reader_ = reply.reader;
  }
  form_->root().setIncarnation(reply.incarnation);
  form_->root().setNumber(reply.number);
  form_->root().setTakesOver(reply.takes_over);
  return form_->message();
}

Message<wire::LeaseReply> write(const Reply::Lease& reply, const MasterConfig&) {
  using Kind = Reply::Lease::Kind;
  const size_t count = reply.lease.parts.size();
  thread_local std::unique_ptr<MessageForm<wire::LeaseReply>> form;
  thread_local size_t form_parts = 0;
  if (!form || form_parts != count) {
    form = std::make_unique<MessageForm<wire::LeaseReply>>();
    form->root().initMinibatches(form_parts = count);
  }
  auto b = form->root();
  b.setKind(reply.kind == Kind::kTrain      ? wire::LeaseReply::Kind::TRAIN
            : reply.kind == Kind::kEvaluate ? wire::LeaseReply::Kind::EVALUATE
            : reply.kind == Kind::kLater    ? wire::LeaseReply::Kind::LATER
                                            : wire::LeaseReply::Kind::END);
  b.setLease(reply.lease.id);
  b.setEpoch(reply.epoch);
  b.setVersion(reply.version);
  auto parts = b.getMinibatches();
  for (unsigned i = 0; i < count; ++i) {
    parts[i].setMinibatch(reply.lease.parts[i].minibatch);
    parts[i].setAttempt(reply.lease.parts[i].attempt);
  }
  return form->message();
}

Message<wire::BeginReply> write(const Reply::Begin& reply, const MasterConfig&) {
  return make_message<wire::BeginReply>([&](wire::BeginReply::Builder b) { b.setBegun(reply.begun); });
}

Message<wire::DoneReply> write(const Reply::Done& reply, const MasterConfig&) {
  return of_form<wire::DoneReply>([&](wire::DoneReply::Builder b) { b.setAccepted(reply.accepted); });
}

Message<wire::HeartbeatReply> write(const Reply::Heartbeat& reply, const MasterConfig&) {
  return of_form<wire::HeartbeatReply>([&](wire::HeartbeatReply::Builder b) {
    b.setInterval(reply.interval);
    b.setTimeout(reply.timeout);
    b.setMapVersion(reply.map_version);
  });
}

Message<wire::OwnersReply> write(const Reply::Owners& reply, const MasterConfig& config) {
  return make_message<wire::OwnersReply>([&](wire::OwnersReply::Builder b) {
    b.setMapVersion(reply.map_version);
    write_addresses(b.initOwners(reply.owners->size()), *reply.owners, config);
  });
}

Message<wire::OrderReply> write(const Order& reply, const MasterConfig&) {
  using Kind = wire::OrderReply::Order;
  static constexpr std::array kinds{Kind::NONE,  Kind::HOLD,     Kind::RELEASE,
                                    Kind::DRAIN, Kind::EVALUATE, Kind::CHECKPOINT};
  return of_form<wire::OrderReply>([&](wire::OrderReply::Builder b) {
    b.setNumber(reply.number);
    b.setOrder(kinds.at(static_cast<size_t>(reply.what)));
    b.setValue(reply.value);
  });
}

Message<wire::CheckpointReply> write(const Reply::Checkpoint& reply, const MasterConfig&) {
  return make_message<wire::CheckpointReply>(
      [&](wire::CheckpointReply::Builder b) { b.setSaved(reply.saved); });
}

Message<wire::Empty> write(const Reply::Empty&, const MasterConfig&) { return make_message<wire::Empty>(); }

Message<wire::FenceRequest> write(const Question::Fence& question) {
  return make_message<wire::FenceRequest>(
      [&](wire::FenceRequest::Builder b) { b.setIncarnation(question.incarnation); });
}

Message<wire::MapRequest> write(const Question::NewMap& question) {
  return make_message<wire::MapRequest>(
      [&](wire::MapRequest::Builder b) { b.setMapVersion(question.version); });
}

Message<wire::NormsRequest> write(const Question::Norms& question) {
  return make_message<wire::NormsRequest>(
      [&](wire::NormsRequest::Builder b) { fill(b.initCommit(), question.commit); });
}

Message<wire::CommitRequest> write(const Commit& question) {
  return make_message<wire::CommitRequest>([&](wire::CommitRequest::Builder b) { fill(b, question); });
}

Message<wire::StatsRequest> write(const Question::Stats& question) {
  return make_message<wire::StatsRequest>([&](wire::StatsRequest::Builder b) {
    b.setEpoch(question.epoch);
    auto list = b.initMinibatches(question.minibatches.size());
    for (unsigned i = 0; i < question.minibatches.size(); ++i) list.set(i, question.minibatches[i]);
  });
}

}  // namespace embers
