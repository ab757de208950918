#include "actors/owner/optimizer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "actors/errors.h"
#include "actors/owner/accumulate.h"
#include "actors/owner/gradients.h"
#include "actors/owner/ledger.h"
#include "actors/owner/norms.h"
#include "actors/owner/staged_journal.h"

namespace embers {
namespace {

using PushPromise = caf::typed_response_promise<Message<wire::PushReply>>;
using CommitPromise = caf::typed_response_promise<Message<wire::CommitReply>>;

struct Staged {
  uint32_t attempt;
  uint32_t examples;
  Message<wire::PushRequest> message;
};

struct OptimizerState {
  OptimizerState() = default;  // no aggregate: see actors/README.md
  OwnerConfig config;
  LocalShardActor shard;
  std::optional<storage::Clipper> clipper;
  Ledger ledger;
  std::map<uint64_t, Staged> staged;       // by minibatch; sync only
  std::shared_ptr<StagedJournal> journal;  // of them, or null
  // Pushes of the minibatches whose apply is under way, beside the one that began it: what is not applied
  // yet, and could be lost with this process, is not acknowledged. Async only.
  std::map<uint64_t, std::vector<PushPromise>> applying;
  std::vector<CommitPromise> committing;  // all that asked for the commit under way; empty when none is
  static inline const char* name = "optimizer";

  void check(const Origin& origin) const {
    if (origin.job != config.job)
      fail(ErrorCode::kMismatch, "a push of job {:016x} at an owner of job {:016x}", origin.job, config.job);
    if (ledger.is_fenced(origin.incarnation))
      fail(ErrorCode::kFenced, "the master gave this worker up, its work went to others: start a new one");
    if (origin.map_version != config.map.version)
      fail(ErrorCode::kStaleMap, "a push routed by owner map {}, now {}", origin.map_version,
           config.map.version);
  }

  // The gradients of a push, each of its table's dim and kind of key, and finite.
  FiniteGradients gradients(const Message<wire::PushRequest>& m) const {
    auto tables = read_slices(m.get().getTables(), config.tables.size(), true);
    std::erase_if(tables, [](const TableSlices& t) { return t.keys.empty(); });
    for (const TableSlices& t : tables) {
      const TableSpec& spec = config.tables[t.table];
      if (t.width != spec.dim || t.keys.kind != spec.key_kind)
        fail(ErrorCode::kInvalid,
             "gradients of dim {} with {} keys pushed to table '{}' of dim {} with {} keys", t.width,
             embers::name(t.keys.kind), spec.name, spec.dim, embers::name(spec.key_kind));
    }
    return finite_gradients(std::move(tables), config.tables, read(m.get().getOrigin()),
                            config.skip_bad_gradients);
  }

  Message<wire::PushReply> push_reply(wire::PushReply::Outcome outcome, uint64_t staleness = 0) const {
    return make_message<wire::PushReply>([&](wire::PushReply::Builder b) {
      b.setOutcome(outcome);
      b.setVersion(ledger.version);
      b.setExamples(ledger.examples);
      b.setStaleness(staleness);
    });
  }

  Message<wire::PushReply> duplicate_reply() {
    ++ledger.duplicates;
    return push_reply(wire::PushReply::Outcome::DUPLICATE);
  }

  std::vector<PushPromise> take_applying(uint64_t minibatch) {
    auto node = applying.extract(minibatch);
    return node ? std::move(node.mapped()) : std::vector<PushPromise>();
  }

  Message<wire::CommitReply> commit_reply() const {
    return make_message<wire::CommitReply>([&](wire::CommitReply::Builder b) {
      b.setVersion(ledger.version);
      b.setExamples(ledger.examples);
    });
  }

  void stage(const Origin& origin, const Message<wire::PushRequest>& m) {
    if (origin.version != ledger.version)
      fail(ErrorCode::kStaleVersion,
           "minibatch {} of epoch {} was computed on version {}, the model is at {}", origin.minibatch,
           origin.epoch, origin.version, ledger.version);
    const auto known = staged.find(origin.minibatch);
    if (known != staged.end() && known->second.attempt > origin.attempt)
      fail(ErrorCode::kStaleLease, "minibatch {} of epoch {}: attempt {} came after attempt {}",
           origin.minibatch, origin.epoch, origin.attempt, known->second.attempt);
    if (journal) journal->add(m);
    staged.insert_or_assign(origin.minibatch, Staged{origin.attempt, origin.examples, m});
  }

  // What the shard's last process had staged and not applied.
  void stage_again(const Message<wire::PushRequest>& m) {
    const Origin origin = read(m.get().getOrigin());
    if (origin.version != ledger.version || ledger.is_applied(origin.epoch, origin.minibatch)) return;
    const auto known = staged.find(origin.minibatch);
    if (known == staged.end() || known->second.attempt <= origin.attempt)
      staged.insert_or_assign(origin.minibatch, Staged{origin.attempt, origin.examples, m});
  }
};

using Self = OptimizerActor::stateful_pointer<OptimizerState>;

// One apply on the shard; `done` runs after its acknowledgement, `failed` with its error.
template <class Done, class Failed>
void request_apply(Self self, ApplyPtr batch, Done done, Failed failed) {
  self->request(self->state.shard, caf::infinite, apply_atom::value, std::move(batch))
      .then([done](uint64_t) mutable { done(); }, [failed](caf::error& e) mutable { failed(e); });
}

// What an async apply's gradients are views of.
struct Pushed {
  Message<wire::PushRequest> message;
  FiniteGradients gradients;
  std::vector<AccumulatedTable> clipped;
};

void push_async(Self self, const Origin& origin, const Message<wire::PushRequest>& m, PushPromise promise) {
  Ledger& ledger = self->state.ledger;
  auto batch = std::make_shared<ApplyBatch>();
  auto pushed = std::make_shared<Pushed>(Pushed{m, self->state.gradients(m), {}});
  if (self->state.clipper->active()) {
    pushed->clipped = copy_of(pushed->gradients.tables);
    clip(pushed->clipped, *self->state.clipper, values(square_sums(pushed->clipped, *self->state.clipper)));
    batch->tables = views_of(pushed->clipped, self->state.config.tables);
  } else {
    batch->tables = pushed->gradients.tables;
  }
  batch->keepalive = pushed;
  // A push without gradients followed no pull from this owner: nothing of it is stale.
  const bool counts = !batch->tables.empty();
  const uint64_t staleness = counts && ledger.version > origin.version ? ledger.version - origin.version : 0;
  if (self->state.config.staleness_modulation) batch->rate_factor = 1.0 / std::max<uint64_t>(staleness, 1);
  batch->version = ++ledger.version;
  batch->step = ++ledger.minibatches;
  batch->note = ledger.note(batch->version, batch->step, pushed->gradients.left_out,
                            {{origin.minibatch, origin.examples}});
  ledger.mark_applied(origin.minibatch, origin.examples);
  self->state.ledger.under_way += origin.examples;
  self->state.applying.emplace(origin.minibatch, std::vector<PushPromise>());
  request_apply(
      self, batch,
      [self, origin, counts, staleness, promise, left_out = pushed->gradients.left_out]() mutable {
        Ledger& ledger = self->state.ledger;
        ledger.under_way -= origin.examples;
        ledger.examples += origin.examples;
        ledger.left_out += left_out;
        if (counts) ledger.add_staleness(staleness);
        promise.deliver(self->state.push_reply(wire::PushReply::Outcome::APPLIED, staleness));
        for (PushPromise& again : self->state.take_applying(origin.minibatch))
          again.deliver(self->state.duplicate_reply());
      },
      [self, origin, promise](const caf::error& e) mutable {
        self->state.ledger.unmark(origin.minibatch);
        self->state.ledger.under_way -= origin.examples;
        --self->state.ledger.minibatches;
        promise.deliver(e);
        for (PushPromise& again : self->state.take_applying(origin.minibatch)) again.deliver(e);
      });
}

void push(Self self, const Message<wire::PushRequest>& m, PushPromise promise) {
  const Origin origin = read(m.get().getOrigin());
  self->state.check(origin);
  if (self->state.ledger.is_applied(origin.epoch, origin.minibatch)) {
    const auto applying = self->state.applying.find(origin.minibatch);
    if (applying != self->state.applying.end())
      applying->second.push_back(promise);
    else
      promise.deliver(self->state.duplicate_reply());
  } else if (self->state.config.sync) {
    self->state.gradients(m);
    self->state.stage(origin, m);
    promise.deliver(self->state.push_reply(wire::PushReply::Outcome::STAGED));
  } else {
    push_async(self, origin, m, promise);
  }
}

// The gradients of a version.
struct VersionSum {
  std::vector<AccumulatedTable> tables;
  uint64_t left_out = 0;  // rows of its minibatches
};

// Adds up the staged minibatches of a commit, in its order.
VersionSum add_up(const OptimizerState& state, wire::CommitRequest::Reader commit) {
  std::vector<FiniteGradients> gradients;
  std::vector<WeightedSlices> parts;
  VersionSum sum;
  std::set<uint64_t> seen;
  for (const auto part : commit.getMinibatches()) {
    const auto staged = state.staged.find(part.getMinibatch());
    if (staged == state.staged.end())
      fail(ErrorCode::kInternal, "commit of version {}: minibatch {} was never staged", commit.getVersion(),
           part.getMinibatch());
    if (!seen.insert(part.getMinibatch()).second)
      fail(ErrorCode::kInvalid, "commit of version {}: minibatch {} is in it twice", commit.getVersion(),
           part.getMinibatch());
    const FiniteGradients& finite = gradients.emplace_back(state.gradients(staged->second.message));
    sum.left_out += finite.left_out;
    parts.push_back({static_cast<float>(part.getWeight()), finite.tables});
  }
  sum.tables = accumulate(parts, state.config.tables);
  return sum;
}

// Books a version's minibatches as applied once the shard acknowledged it.
void book_commit(OptimizerState& state, wire::CommitRequest::Reader commit) {
  for (const auto part : commit.getMinibatches()) {
    const auto staged = state.staged.find(part.getMinibatch());
    state.ledger.examples += staged->second.examples;
    ++state.ledger.minibatches;
    state.ledger.mark_applied(part.getMinibatch(), staged->second.examples);
    state.staged.erase(staged);
  }
  state.ledger.version = commit.getVersion();
  if (state.journal && state.staged.empty()) state.journal->clear();
}

// For the journal, before it is applied.
AppliedNote note_commit(OptimizerState& state, wire::CommitRequest::Reader commit, uint64_t left_out) {
  std::vector<std::pair<uint64_t, uint32_t>> applied;
  for (const auto part : commit.getMinibatches())
    applied.emplace_back(part.getMinibatch(), state.staged.at(part.getMinibatch()).examples);
  const uint64_t minibatches = state.ledger.minibatches + applied.size();
  return state.ledger.note(commit.getVersion(), minibatches, left_out, std::move(applied));
}

void commit(Self self, const Message<wire::CommitRequest>& m, CommitPromise promise) {
  OptimizerState& state = self->state;
  const auto request = m.get();
  if (request.getVersion() == state.ledger.version) {
    promise.deliver(state.commit_reply());
    return;
  }
  if (!state.committing.empty() &&
      request.getVersion() == state.ledger.version + 1) {  // asked again: one apply for all
    state.committing.push_back(promise);
    return;
  }
  if (request.getVersion() != state.ledger.version + 1)
    fail(ErrorCode::kStaleVersion, "commit of version {} at version {}", request.getVersion(),
         state.ledger.version);
  auto sum = std::make_shared<VersionSum>(add_up(state, request));
  clip(sum->tables, *state.clipper, read_norms(request));
  auto batch = std::make_shared<ApplyBatch>();
  batch->version = batch->step = request.getVersion();
  batch->tables = views_of(sum->tables, state.config.tables);
  batch->note = note_commit(state, request, sum->left_out);
  batch->keepalive = sum;
  state.committing.push_back(promise);
  request_apply(
      self, batch,
      [self, m, left_out = sum->left_out] {
        book_commit(self->state, m.get());
        self->state.ledger.left_out += left_out;
        for (CommitPromise& p : std::exchange(self->state.committing, {}))
          p.deliver(self->state.commit_reply());
      },
      [self](const caf::error& e) {
        for (CommitPromise& p : std::exchange(self->state.committing, {})) p.deliver(e);
      });
}

void resume(OptimizerState& state, wire::ResumeRequest::Reader request) {
  state.ledger.begin_epoch(request.getEpoch());
  state.ledger.version = request.getVersion();
  state.ledger.examples = request.getExamples();
  state.ledger.minibatches = request.getMinibatches();
  for (const uint64_t minibatch : request.getApplied()) state.ledger.mark_applied(minibatch, 0);
}

// A promise that is kept when this actor ends with the answer of its shard still to come: who asked for it
// waits in a thread.
class Kept {
 public:
  using Promise = caf::typed_response_promise<Message<wire::Empty>>;
  explicit Kept(Promise open) : promise(std::move(open)) {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() {
    if (promise.pending()) promise.deliver(to_caf(Error(ErrorCode::kUnavailable, "the owner has ended")));
  }

  Promise promise;
};

// Both actors of the owner refuse what was routed by an older map before the master is answered.
void take_map(Self self, uint32_t version, caf::typed_response_promise<Message<wire::Empty>> promise) {
  self->state.config.map.version = std::max(self->state.config.map.version, version);
  self->request(self->state.shard, caf::infinite, map_atom::value, version)
      .then([promise](uint32_t) mutable { promise.deliver(make_message<wire::Empty>()); },
            [promise](caf::error& e) mutable { promise.deliver(std::move(e)); });
}

Message<wire::StatsReply> stats_reply(const Ledger& ledger, const StoreStats& store,
                                      wire::StatsRequest::Reader request) {
  std::vector<std::pair<uint64_t, uint32_t>> applied;
  for (const uint64_t minibatch : request.getMinibatches())
    if (const auto records = ledger.applied(request.getEpoch(), minibatch))
      applied.emplace_back(minibatch, *records);
  return make_message<wire::StatsReply>([&](wire::StatsReply::Builder b) {
    b.setVersion(ledger.version);
    b.setExamples(ledger.examples);
    b.setMinibatches(ledger.minibatches);
    b.setDuplicates(ledger.duplicates);
    write(b, ledger.staleness(request.getEpoch()));
    b.setRows(store.rows);
    b.setResidentBytes(store.resident_bytes);
    b.setBadGradients(ledger.left_out + store.left_out);
    auto list = b.initApplied(applied.size());
    for (unsigned i = 0; i < applied.size(); ++i) {
      list[i].setMinibatch(applied[i].first);
      list[i].setExamples(applied[i].second);
    }
  });
}

OptimizerActor::behavior_type optimizer_behavior(Self self, const OwnerConfig& config,
                                                 const LocalShardActor& shard,
                                                 const std::vector<AppliedNote>& left,
                                                 const std::shared_ptr<StagedJournal>& journal) {
  self->state.config = config;
  self->state.shard = shard;
  self->state.clipper.emplace(config.tables);
  self->state.journal = journal;
  for (const AppliedNote& note : left) self->state.ledger.recover(note);
  if (journal)
    for (const auto& push : journal->take_left()) self->state.stage_again(push);
  return {
      [self](const Message<wire::PushRequest>& m) -> caf::result<Message<wire::PushReply>> {
        auto promise = self->make_response_promise<Message<wire::PushReply>>();
        guarded(
            Kind::kPushRequest, [&] { push(self, m, promise); },
            [&](const Error& e) { promise.deliver(to_caf(e)); });
        return promise;
      },
      [self](const Message<wire::NormsRequest>& m) {
        return guarded(Kind::kNormsRequest, [&] {
          const VersionSum sum = add_up(self->state, m.get().getCommit());
          return make_norms_reply(square_sums(sum.tables, *self->state.clipper));
        });
      },
      [self](const Message<wire::CommitRequest>& m) -> caf::result<Message<wire::CommitReply>> {
        auto promise = self->make_response_promise<Message<wire::CommitReply>>();
        guarded(
            Kind::kCommitRequest, [&] { commit(self, m, promise); },
            [&](const Error& e) { promise.deliver(to_caf(e)); });
        return promise;
      },
      [self](const Message<wire::FenceRequest>& m) {
        return guarded(Kind::kFenceRequest, [&] {
          self->state.ledger.fence(m.get().getIncarnation());
          return make_message<wire::Empty>();
        });
      },
      [self](const Message<wire::MapRequest>& m) -> caf::result<Message<wire::Empty>> {
        auto promise = self->make_response_promise<Message<wire::Empty>>();
        guarded(
            Kind::kMapRequest, [&] { take_map(self, m.get().getMapVersion(), promise); },
            [&](const Error& e) { promise.deliver(to_caf(e)); });
        return promise;
      },
      [self](const Message<wire::StatsRequest>& m) -> caf::result<Message<wire::StatsReply>> {
        auto promise = self->make_response_promise<Message<wire::StatsReply>>();
        self->request(self->state.shard, caf::infinite, stats_atom::value)
            .then(
                [=](const StoreStats& s) mutable {
                  guarded(
                      Kind::kStatsRequest,
                      [&] { promise.deliver(stats_reply(self->state.ledger, s, m.get())); },
                      [&](const Error& e) { promise.deliver(to_caf(e)); });
                },
                [=](caf::error& e) mutable { promise.deliver(std::move(e)); });
        return promise;
      },
      [self](const Message<wire::ResumeRequest>& m) -> caf::result<Message<wire::Empty>> {
        auto promise = self->make_response_promise<Message<wire::Empty>>();
        guarded(
            Kind::kResumeRequest,
            [&] {
              resume(self->state, m.get());
              const auto note = std::make_shared<const AppliedNote>(self->state.ledger.note_of_all());
              const auto kept = std::make_shared<Kept>(promise);
              self->request(self->state.shard, caf::infinite, resume_atom::value, NotePtr(note))
                  .then([kept](uint64_t) { kept->promise.deliver(make_message<wire::Empty>()); },
                        [kept](caf::error& e) { kept->promise.deliver(std::move(e)); });
            },
            [&](const Error& e) { promise.deliver(to_caf(e)); });
        return promise;
      },
      [self](const Message<wire::EndRequest>& m) {
        return guarded(Kind::kEndRequest, [&] {
          if (self->state.config.on_end) self->state.config.on_end(m.get().getOk(), m.get().getMessage());
          return make_message<wire::Empty>();
        });
      },
  };
}

}  // namespace

OptimizerActor spawn_optimizer(caf::actor_system& system, const OwnerConfig& config, LocalShardActor shard,
                               const std::vector<AppliedNote>& left) {
  if (!config.sync || !config.has_journal())
    return system.spawn(optimizer_behavior, config, std::move(shard), left, std::shared_ptr<StagedJournal>());
  auto journal = std::make_shared<StagedJournal>(config.external.journal, config.shard, config.job);
  return system.spawn<caf::detached>(optimizer_behavior, config, std::move(shard), left, std::move(journal));
}

}  // namespace embers
