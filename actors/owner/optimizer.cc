#include "actors/owner/optimizer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "actors/errors.h"
#include "actors/owner/gradients.h"
#include "actors/owner/ledger.h"
#include "actors/owner/norms.h"
#include "actors/owner/read_push.h"
#include "actors/owner/staged_journal.h"
#include "actors/owner/staging.h"
#include "actors/spawn.h"

namespace embers {
namespace {

using PushPromise = caf::typed_response_promise<Message<wire::PushReply>>;
using CommitPromise = caf::typed_response_promise<Message<wire::CommitReply>>;

struct OptimizerState {
  OptimizerState() = default;  // no aggregate: see actors/README.md
  OwnerConfig config;
  LocalShardActor shard;
  std::optional<storage::Clipper> clipper;
  Ledger ledger;
  std::optional<PushReader> reader;
  Staging staging;  // sync only
  // Pushes that wait for an apply of their minibatch which another push began. They are acknowledged only
  // when it is applied, since until then it could be lost with this process. Async only.
  std::map<uint64_t, std::vector<PushPromise>> applying;
  std::vector<CommitPromise> committing;  // all that asked for the commit under way; empty when none is
  bool begun = false;                     // some push was taken, here or in the owner's last process
  static inline const char* name = "optimizer";

  void publish() const {
    config.activity->applied = ledger.minibatches - applying.size();
    config.activity->waiting = applying.size() + staging.size();
  }

  void check(const Origin& origin) const {
    if (origin.job != config.job)
      fail(ErrorCode::kMismatch, "a push of job {:016x} reached an owner of job {:016x}", origin.job,
           config.job);
    if (ledger.is_fenced(origin.incarnation))
      fail(ErrorCode::kFenced,
           "the master has given up on this worker and given its work to others: start a new worker");
    if (origin.map_version != config.map.version)
      fail(ErrorCode::kStaleMap, "a push was routed by owner map {}, but the map is now {}",
           origin.map_version, config.map.version);
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

  Message<wire::PushReply> stage(PushPtr push) {
    const Origin& origin = push->origin;
    if (origin.version != ledger.version)
      fail(ErrorCode::kStaleVersion,
           "minibatch {} of epoch {} was computed on version {}, but the model is at {}", origin.minibatch,
           origin.epoch, origin.version, ledger.version);
    return staging.add(std::move(push)) ? push_reply(wire::PushReply::Outcome::STAGED) : duplicate_reply();
  }

  // What the owner's last process had staged and not applied.
  void stage_again(const PushPtr& push) {
    if (push->origin.version == ledger.version &&
        !ledger.is_applied(push->origin.epoch, push->origin.minibatch))
      staging.add_again(push);
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
  PushPtr push;
  std::vector<AccumulatedTable> clipped;
};

void push_async(Self self, PushPtr push, PushPromise promise) {
  Ledger& ledger = self->state.ledger;
  const Origin origin = push->origin;
  const FiniteGradients& gradients = push->gradients;
  auto batch = std::make_shared<ApplyBatch>();
  auto pushed = std::make_shared<Pushed>(Pushed{push, {}});
  if (self->state.clipper->active()) {
    pushed->clipped = copy_of(gradients.tables);
    clip(pushed->clipped, *self->state.clipper, values(square_sums(pushed->clipped, *self->state.clipper)));
    batch->tables = views_of(pushed->clipped, self->state.config.tables);
  } else {
    batch->tables = gradients.tables;
  }
  batch->keepalive = pushed;
  // A push without gradients follows no pull from this owner, so it cannot be stale.
  const bool counts = !batch->tables.empty();
  const uint64_t staleness = counts && ledger.version > origin.version ? ledger.version - origin.version : 0;
  if (self->state.config.staleness_modulation) batch->rate_factor = 1.0 / std::max<uint64_t>(staleness, 1);
  batch->version = ++ledger.version;
  batch->step = ++ledger.minibatches;
  batch->sender = origin.incarnation;
  batch->sender_step = origin.step;
  batch->note =
      ledger.note(batch->version, batch->step, gradients.left_out, {{origin.minibatch, origin.examples}});
  ledger.mark_applied(origin.minibatch, origin.examples);
  self->state.ledger.under_way += origin.examples;
  self->state.applying.emplace(origin.minibatch, std::vector<PushPromise>());
  request_apply(
      self, batch,
      [self, origin, counts, staleness, promise, left_out = gradients.left_out]() mutable {
        Ledger& ledger = self->state.ledger;
        ledger.under_way -= origin.examples;
        ledger.examples += origin.examples;
        ledger.left_out += left_out;
        if (counts) ledger.add_staleness(staleness);
        promise.deliver(self->state.push_reply(wire::PushReply::Outcome::APPLIED, staleness));
        for (PushPromise& again : self->state.take_applying(origin.minibatch))
          again.deliver(self->state.duplicate_reply());
        self->state.publish();
      },
      [self, origin, promise](const caf::error& e) mutable {
        self->state.ledger.unmark(origin.minibatch);
        self->state.ledger.under_way -= origin.examples;
        --self->state.ledger.minibatches;
        promise.deliver(e);
        for (PushPromise& again : self->state.take_applying(origin.minibatch)) again.deliver(e);
      });
}

void answer_duplicate(Self self, const Origin& origin, PushPromise promise) {
  std::optional<AppliedNote> note;
  if (!self->state.config.sync)
    note = self->state.ledger.count_resumed(origin.epoch, origin.minibatch, origin.examples);
  if (!note) {
    promise.deliver(self->state.duplicate_reply());
    return;
  }
  self->request(self->state.shard, caf::infinite, note_atom::value,
                std::make_shared<const AppliedNote>(*note))
      .then([self, promise](uint64_t) mutable { promise.deliver(self->state.duplicate_reply()); },
            [promise](caf::error& e) mutable { promise.deliver(std::move(e)); });
}

void push(Self self, const Message<wire::PushRequest>& m, PushPromise promise) {
  const Origin origin = read(m.get().getOrigin());
  self->state.check(origin);
  self->state.begun = true;
  self->state.config.activity->pushes.fetch_add(1, std::memory_order_relaxed);
  if (self->state.ledger.is_applied(origin.epoch, origin.minibatch)) {
    const auto applying = self->state.applying.find(origin.minibatch);
    if (applying != self->state.applying.end())
      applying->second.push_back(promise);
    else
      answer_duplicate(self, origin, promise);
  } else if (self->state.config.sync) {
    promise.deliver(self->state.stage(self->state.reader->read(m)));
  } else {
    push_async(self, self->state.reader->read(m), promise);
  }
  self->state.publish();
}

// Books a version's minibatches as applied once the shard has acknowledged it.
void book_commit(OptimizerState& state, wire::CommitRequest::Reader commit) {
  for (const auto part : commit.getMinibatches()) {
    const uint32_t examples = state.staging.examples(part.getMinibatch());
    state.ledger.examples += examples;
    ++state.ledger.minibatches;
    state.ledger.mark_applied(part.getMinibatch(), examples);
    state.staging.drop(part.getMinibatch());
  }
  state.ledger.version = commit.getVersion();
  state.publish();
}

// The note of a commit for the journal, made before the commit is applied.
AppliedNote note_commit(OptimizerState& state, wire::CommitRequest::Reader commit, uint64_t left_out) {
  std::vector<std::pair<uint64_t, uint32_t>> applied;
  for (const auto part : commit.getMinibatches())
    applied.emplace_back(part.getMinibatch(), state.staging.examples(part.getMinibatch()));
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
    fail(ErrorCode::kStaleVersion, "a commit of version {} reached an owner at version {}",
         request.getVersion(), state.ledger.version);
  auto sum = std::make_shared<VersionSum>(state.staging.add_up(request, state.config.tables));
  clip(sum->tables, *state.clipper, read_norms(request));
  auto batch = std::make_shared<ApplyBatch>();
  batch->version = batch->step = request.getVersion();
  batch->tables = views_of(sum->tables, state.config.tables);
  batch->note = note_commit(state, request, sum->left_out);
  batch->keepalive = sum;
  state.committing.push_back(promise);
  const auto answer = [self](const auto& with) {
    for (CommitPromise& p : std::exchange(self->state.committing, {})) p.deliver(with);
  };
  request_apply(
      self, batch,
      [self, m, answer, left_out = sum->left_out] {
        guarded(
            Kind::kCommitRequest,
            [&] {
              book_commit(self->state, m.get());
              self->state.ledger.left_out += left_out;
              answer(self->state.commit_reply());
            },
            [&](const Error& e) { answer(to_caf(e)); });
      },
      answer);
}

void resume(OptimizerState& state, wire::ResumeRequest::Reader request) {
  state.ledger.begin_epoch(request.getEpoch());
  state.ledger.version = request.getVersion();
  state.ledger.examples = request.getExamples();
  state.ledger.minibatches = request.getMinibatches();
  for (const uint64_t minibatch : request.getApplied()) state.ledger.mark_applied(minibatch, 0);
  state.publish();
}

// Answers the promise even if this actor ends before its shard has answered, since the asker blocks a thread
// while it waits.
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

// When the master is answered, both actors of the owner already refuse what was routed by an older map.
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
                                                 const std::shared_ptr<StagedJournal>& journal,
                                                 const std::vector<PushPtr>& staged) {
  self->state.config = config;
  self->state.begun = config.takes_over;
  self->state.shard = shard;
  self->state.clipper.emplace(config.tables);
  self->state.reader.emplace(self->state.config.tables, config.skip_bad_gradients);
  self->state.staging = Staging(journal);
  for (const AppliedNote& note : left) self->state.ledger.recover(note);
  for (const PushPtr& push : staged) self->state.stage_again(push);
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
          const VersionSum sum = self->state.staging.add_up(m.get().getCommit(), self->state.config.tables);
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
              // Asked again over a new connection, and answered: this is what the old one still held.
              if (self->state.begun) {
                promise.deliver(make_message<wire::Empty>());
                return;
              }
              resume(self->state, m.get());
              const auto note = std::make_shared<const AppliedNote>(self->state.ledger.note_of_all());
              const auto kept = std::make_shared<Kept>(promise);
              self->request(self->state.shard, caf::infinite, note_atom::value, NotePtr(note))
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
    return system.spawn(optimizer_behavior, config, std::move(shard), left, std::shared_ptr<StagedJournal>(),
                        std::vector<PushPtr>());
  auto journal = std::make_shared<StagedJournal>(config.external.journal, config.number, config.job,
                                                 *config.external.disk);
  std::vector<PushPtr> staged;
  PushReader reader(config.tables, config.skip_bad_gradients);
  for (const auto& push : journal->take_left()) staged.push_back(reader.read(push));
  return spawn_with_thread(system, optimizer_behavior, config, std::move(shard), left, std::move(journal),
                           std::move(staged));
}

}  // namespace embers
