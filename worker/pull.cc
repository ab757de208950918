#include "worker/pull.h"

#include "actors/ask.h"

namespace embers {
namespace {

struct PullerState {
  static inline const char* name = "puller";
};

// One minibatch whose answers are on their way.
struct Pulling {
  WorkPtr work;
  PullPlan plan;
  size_t open;  // answers to come
  bool failed = false;
};

// Whether this owner is asked at all: it holds a key of the minibatch.
bool is_asked(const PullPlan& plan, size_t owner) { return !plan.routed[owner].empty(); }

}  // namespace

DenseKeys::DenseKeys(const ModelSpec& model) {
  for (const DenseChunk& chunk : dense_chunks(model, false)) dense.push_back(chunk.key);
  for (const DenseChunk& chunk : dense_chunks(model, true)) buffers.push_back(chunk.key);
}

PullPlan plan_pull(Work& work, const Owners& owners, const ModelSpec& model, const DenseKeys& keys) {
  PullPlan plan;
  const auto add = [&](TableId table, KeysView list, FloatBuffer& place) {
    place = FloatBuffer(list.size() * owners.tables[table].dim);
    plan.lists.push_back({table, list});
    plan.places.push_back(place.span());
  };
  work.rows.bets.resize(work.lookups.tables.size());
  for (size_t t = 0; t < work.lookups.tables.size(); ++t)
    add(work.lookups.tables[t].table, work.lookups.tables[t].unique, work.rows.bets[t]);
  if (!keys.dense.empty()) add(model.table_id(kDenseTable), keys.dense, work.rows.dense);
  if (!keys.buffers.empty()) add(model.table_id(kBufferTable), keys.buffers, work.rows.buffers);
  plan.routed = route(plan.lists, owners.map, owners.handles.size());
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
                        StageActor next, StageOwner worker) {
  const auto behavior = [](StageActor::stateful_pointer<PullerState> self,
                           std::shared_ptr<const Owners> owners, const ModelSpec& model,
                           const DenseKeys& keys, StageActor next,
                           StageOwner worker) -> StageActor::behavior_type {
    return {[=](const WorkPtr& work) {
      stage(worker, [&] {
        auto pulling = std::make_shared<Pulling>();
        pulling->work = work;
        pulling->plan = plan_pull(*work, *owners, model, keys);
        work->versions.assign(owners->handles.size(), 0);
        pulling->open = 1;
        const auto arrived = [self, pulling, next] {
          if (--pulling->open == 0 && !pulling->failed) self->send(next, pulling->work);
        };
        for (size_t owner = 0; owner < owners->handles.size(); ++owner) {
          if (!is_asked(pulling->plan, owner)) continue;
          ++pulling->open;
          self->request(owners->handles[owner].shard, caf::infinite,
                        pull_request(pulling->plan, owner, work->origin, work->exact, !work->evaluate))
              .then(
                  [=](const Message<wire::PullReply>& reply) {
                    stage(worker, [&] {
                      decoding(Kind::kPullReply,
                               [&] { take_rows(pulling->plan, owner, *owners, reply.get()); });
                      pulling->work->versions[owner] = reply.get().getVersion();
                      arrived();
                    });
                  },
                  [=](caf::error& e) {
                    const Error why = from_caf(e);
                    if (remedy(why.code()) == Remedy::kRefresh) {
                      pulling->work->refused = true;
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
  return system.spawn(behavior, std::move(owners), model, DenseKeys(model), std::move(next),
                      std::move(worker));
}

void pull_now(caf::scoped_actor& self, const Owners& owners, const Work& work, TableId table, KeysView keys,
              std::span<float> out) {
  PullPlan plan{{{table, keys}}, {}, {out}};
  plan.routed = route(plan.lists, owners.map, owners.handles.size());
  for (size_t owner = 0; owner < owners.handles.size(); ++owner) {
    if (!is_asked(plan, owner)) continue;
    const auto reply = ask(self.ptr(), owners.handles[owner].shard,
                           pull_request(plan, owner, work.origin, work.exact, !work.evaluate));
    decoding(Kind::kPullReply, [&] { take_rows(plan, owner, owners, reply.get()); });
  }
}

}  // namespace embers
