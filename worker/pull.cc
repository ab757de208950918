#include "worker/pull.h"

#include <deque>

#include "actors/ask.h"
#include "worker/cached_pull.h"

namespace embers {
namespace {

// One minibatch whose answers are on their way.
struct Pulling {
  WorkPtr work;
  PullPlan plan;
  size_t open = 1;  // answers to come
  bool failed = false;
};

struct PullerState {
  PullerState() = default;                     // no aggregate: see actors/README.md
  std::deque<std::shared_ptr<Pulling>> order;  // not yet handed on
  std::unique_ptr<RowCaches> caches;           // null without
  uint32_t local_steps = 0;  // minibatches since the dense model was pulled; 0: the next one pulls it
  static inline const char* name = "puller";

  bool is_time_for_dense(const Work& work, uint32_t get_model_steps) {
    const bool due = work.evaluate || local_steps == 0;
    local_steps = work.evaluate ? 0 : (local_steps + 1) % get_model_steps;
    return due;
  }
};

// Hands on what has all its answers and is first in order.
void hand_on(StageActor::stateful_pointer<PullerState> self, const StageActor& next) {
  auto& order = self->state.order;
  for (; !order.empty() && order.front()->open == 0 && !order.front()->failed; order.pop_front()) {
    Work& work = *order.front()->work;
    work.times[StageTimes::kPull] = work.since_pull.lap();
    self->send(next, order.front()->work);
  }
}

// Whether this owner is asked at all: it holds a key of the minibatch.
bool is_asked(const PullPlan& plan, size_t owner) { return !plan.routed[owner].empty(); }

}  // namespace

DenseKeys::DenseKeys(const ModelSpec& model) {
  for (const DenseChunk& chunk : dense_chunks(model, false)) dense.push_back(chunk.key);
  for (const DenseChunk& chunk : dense_chunks(model, true)) buffers.push_back(chunk.key);
}

PullPlan plan_pull(Work& work, const Owners& owners, const ModelSpec& model, const DenseKeys& keys,
                   RowCaches* caches) {
  PullPlan plan;
  const auto add = [&](TableId table, KeysView list, FloatBuffer& place) {
    place = FloatBuffer(list.size() * owners.tables[table].dim);
    plan.lists.push_back({table, list});
    plan.places.push_back(place.span());
  };
  work.rows.bets.resize(work.lookups.tables.size());
  for (size_t t = 0; t < work.lookups.tables.size(); ++t)
    add(work.lookups.tables[t].table, work.lookups.tables[t].unique, work.rows.bets[t]);
  if (work.pulls_dense && !keys.dense.empty()) add(model.table_id(kDenseTable), keys.dense, work.rows.dense);
  if (work.pulls_dense && !keys.buffers.empty())
    add(model.table_id(kBufferTable), keys.buffers, work.rows.buffers);
  plan.oldest.assign(owners.handles.size(), UINT64_MAX);
  if (caches) caches->take(work, plan);
  plan.routed = route(plan.lists, owners.map, owners.handles.size());
  if (caches) plan.restore_positions();
  return plan;
}

Message<wire::PullRequest> pull_request(const PullPlan& plan, size_t owner, const Origin& origin, bool exact,
                                        bool create) {
  std::vector<TableSlices> tables;
  for (const RoutedTable& part : plan.routed[owner]) tables.push_back({part.table, part.keys, 0, {}});
  return make_pull(origin, exact ? wire::ReadMode::EXACT : wire::ReadMode::LATEST, create, tables);
}

void take_rows(const PullPlan& plan, size_t owner, const Owners& owners, wire::PullReply::Reader reply) {
  for (size_t i = 0; i < plan.routed[owner].size(); ++i) {
    const RoutedTable& part = plan.routed[owner][i];
    const uint32_t dim = owners.tables[part.table].dim;
    scatter(read_rows(reply, i, {part.table, dim, part.keys.size()}), dim, part.positions,
            plan.places[part.source]);
  }
}

StageActor spawn_puller(caf::actor_system& system, std::shared_ptr<const Owners> owners, ModelSpec model,
                        PullOptions options, StageActor next, StageOwner worker) {
  const auto behavior = [](StageActor::stateful_pointer<PullerState> self,
                           std::shared_ptr<const Owners> owners, const ModelSpec& model,
                           const DenseKeys& keys, PullOptions options, StageActor next,
                           StageOwner worker) -> StageActor::behavior_type {
    if (options.cache_rows > 0)
      self->state.caches = std::make_unique<RowCaches>(*owners, options.cache_rows, options.cache_staleness);
    return {[=](const WorkPtr& work) {
      stage(worker, [&] {
        auto pulling = std::make_shared<Pulling>();
        pulling->work = work;
        work->pulls_dense = self->state.is_time_for_dense(*work, options.get_model_steps);
        RowCaches* const caches = work->evaluate ? nullptr : self->state.caches.get();
        pulling->plan = plan_pull(*work, *owners, model, keys, caches);
        work->versions.assign(owners->handles.size(), 0);
        self->state.order.push_back(pulling);
        const auto arrived = [self, pulling, next] {
          if (--pulling->open == 0) hand_on(self, next);
        };
        for (size_t owner = 0; owner < owners->handles.size(); ++owner) {
          const uint64_t oldest = pulling->plan.oldest[owner];
          if (oldest != UINT64_MAX) work->versions[owner] = oldest;
          if (!is_asked(pulling->plan, owner)) continue;
          ++pulling->open;
          self->request(owners->handles[owner].shard, caf::infinite,
                        pull_request(pulling->plan, owner, work->origin, work->exact, !work->evaluate))
              .then(
                  [=](const Message<wire::PullReply>& reply) {
                    stage(worker, [&] {
                      decoding(Kind::kPullReply,
                               [&] { take_rows(pulling->plan, owner, *owners, reply.get()); });
                      const uint64_t version = reply.get().getVersion();
                      if (caches) caches->keep(pulling->plan, owner, version);
                      pulling->work->versions[owner] = std::min(version, oldest);
                      arrived();
                    });
                  },
                  [=](caf::error& e) {
                    const Error why = from_caf(e);
                    if (is_given_back(*owners, *pulling->work, why)) {
                      self->state.local_steps = 0;
                      arrived();
                    } else if (!std::exchange(pulling->failed, true)) {
                      self->send(worker, owner_failure(owner, why));
                    }
                  });
        }
        arrived();
      });
    }};
  };
  return system.spawn(behavior, std::move(owners), model, DenseKeys(model), options, std::move(next),
                      std::move(worker));
}

void pull_now(caf::scoped_actor& self, const Owners& owners, Work& work, TableId table, KeysView keys,
              std::span<float> out) {
  PullPlan plan;
  plan.lists = {{table, keys}};
  plan.places = {out};
  plan.routed = route(plan.lists, owners.map, owners.handles.size());
  for (size_t owner = 0; owner < owners.handles.size(); ++owner) {
    if (!is_asked(plan, owner)) continue;
    const auto reply = ask(self.ptr(), owners.handles[owner].shard,
                           pull_request(plan, owner, work.origin, work.exact, !work.evaluate));
    decoding(Kind::kPullReply, [&] { take_rows(plan, owner, owners, reply.get()); });
    // Of an owner that was asked before, what came first is the older.
    if (work.versions[owner] == 0) work.versions[owner] = reply.get().getVersion();
  }
}

}  // namespace embers
