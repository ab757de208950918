#include "client/pipeline/pull.h"

#include <deque>
#include <optional>

#include "actors/ask.h"
#include "client/pipeline/cached_pull.h"

namespace embers {
namespace {

// Whether this owner is asked at all: it holds a key of the minibatch.
bool is_asked(const PullPlan& plan, size_t owner) { return !plan.routed[owner].empty(); }

// Each key once, though several owners may be asked for its columns.
uint64_t keys_of(const PullPlan& plan, size_t owner) {
  uint64_t keys = 0;
  for (const RoutedTable& part : plan.routed[owner])
    if (part.columns.begin == 0) keys += part.keys.size();
  return keys;
}

// If the owner was asked for dense parameters.
void note_dense(Work& work, const Owners& owners, const PullPlan& plan, size_t owner,
                wire::PullReply::Reader reply) {
  const auto& parts = plan.routed[owner];
  const bool has_dense = std::any_of(parts.begin(), parts.end(), [&](const RoutedTable& part) {
    return owners.tables[part.table].name == kDenseTable;
  });
  if (has_dense && owner < work.dense_reads.size())
    work.dense_reads[owner] = DenseRead{reply.getVersion(), reply.getOwnStep()};
}

bool reads_directly(const Owners& owners, const Work& work) { return owners.direct && !work.exact; }

// Rows whose columns are split have no place of their own at the servers: owners are asked for them.
DirectReadPtr direct_read(const PullPlan& plan, const Owners& owners) {
  auto read = std::make_shared<DirectRead>();
  read->lists = plan.lists;
  read->places = plan.places;
  for (size_t i = 0; i < read->lists.size(); ++i) {
    const TableSpec& table = owners.tables[read->lists[i].table];
    if (!is_split(table, owners.handles.size())) continue;
    read->lists[i].keys = KeysView{table.key_kind, {}, {}, {}};
    read->places[i] = {};
  }
  return read;
}

void take_direct(Work& work, const DirectRead& read, uint64_t rows) {
  work.direct_rows += rows;
  for (size_t owner = 0; rows > 0 && owner < read.versions.size(); ++owner)
    work.read_of(owner, *read.versions[owner]);
}

// Whether owners may know more about what went wrong with a server.
bool is_unreachable(const Error& why) {
  return remedy(why.code()) == Remedy::kRetry || why.code() == ErrorCode::kUnreachable;
}

Error no_direct_rows(const Error& why) {
  return Error(ErrorCode::kLost,
               fmt::format("a worker cannot read rows: {}: check that the server runs and that the workers' "
                           "hosts can reach it, then go on from the last checkpoint (--resume)",
                           why.what()));
}

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
  work.rows.bets.resize(work.keys.size());
  for (size_t t = 0; t < work.keys.size(); ++t) add(work.keys[t].table, work.keys[t].keys, work.rows.bets[t]);
  if (work.pulls_dense && !keys.dense.empty()) add(model.table_id(kDenseTable), keys.dense, work.rows.dense);
  if (work.pulls_dense && !keys.buffers.empty())
    add(model.table_id(kBufferTable), keys.buffers, work.rows.buffers);
  plan.oldest.assign(owners.handles.size(), UINT64_MAX);
  if (caches) caches->take(work, plan);
  return plan;
}

void route_pull(PullPlan& plan, const Owners& owners, std::span<const std::vector<uint8_t>> found) {
  plan.routed = route(plan.lists, owners.tables, owners.map, owners.handles.size(), found);
  if (!plan.rests.empty()) plan.restore_positions();
}

Message<wire::PullRequest> pull_request(const PullPlan& plan, size_t owner, const Origin& origin, bool exact,
                                        bool create, NumberType rows_as, KeysSent keys) {
  std::vector<TableSlices> tables;
  for (const RoutedTable& part : plan.routed[owner]) tables.push_back({part.table, part.keys, 0, {}});
  return make_pull(origin, exact ? wire::ReadMode::EXACT : wire::ReadMode::LATEST, create, tables, rows_as,
                   keys);
}

void take_rows(const PullPlan& plan, size_t owner, const Owners& owners, wire::PullReply::Reader reply) {
  for (size_t i = 0; i < plan.routed[owner].size(); ++i) {
    const RoutedTable& part = plan.routed[owner][i];
    const uint32_t dim = owners.tables[part.table].dim;
    const SentRows rows = read_sent_rows(reply, i, {part.table, part.columns.size(), part.keys.size()});
    if (part.columns.size() == dim)
      scatter(rows, dim, part.positions, plan.places[part.source]);
    else
      scatter_columns(rows, dim, part.columns, part.positions, plan.places[part.source]);
  }
}

namespace {

// One minibatch whose rows are on their way.
struct Pulling {
  WorkPtr work;
  PullPlan plan;
  RowCaches* caches = nullptr;       // that keep its rows
  size_t open = 1;                   // answers to come
  std::optional<Error> unreachable;  // a server that this worker could not reach; owners are asked why
  bool failed = false;
};
using PullingPtr = std::shared_ptr<Pulling>;

struct PullerState {
  PullerState() = default;  // no aggregate: see actors/README.md
  using Self = StageActor::stateful_pointer<PullerState>;
  static inline const char* name = "puller";

  // Constant after start.
  Self self = nullptr;
  std::shared_ptr<const Owners> owners;
  ModelSpec model;
  std::shared_ptr<const DenseKeys> keys;
  PullOptions options;
  StageActor next;
  StageOwner session;

  std::deque<PullingPtr> order;       // not yet handed on
  std::unique_ptr<RowCaches> caches;  // null without
  uint32_t local_steps = 0;  // minibatches since the dense model was pulled; 0: the next one pulls it

  bool is_time_for_dense(const Work& work) {
    const bool due = work.evaluate || local_steps == 0;
    local_steps = work.evaluate ? 0 : (local_steps + 1) % options.get_model_steps;
    return due;
  }

  void pull(const WorkPtr& work) {
    auto pulling = std::make_shared<Pulling>();
    pulling->work = work;
    work->versions.assign(owners->handles.size(), std::nullopt);
    work->dense_reads.assign(owners->handles.size(), std::nullopt);
    if (work->refused) {  // given back before it was begun
      pulling->open = 0;
      order.push_back(pulling);
      return hand_on();
    }
    work->pulls_dense = is_time_for_dense(*work);
    pulling->caches = work->evaluate ? nullptr : caches.get();
    pulling->plan = plan_pull(*work, *owners, model, *keys, pulling->caches);
    for (size_t owner = 0; owner < owners->handles.size(); ++owner)
      if (pulling->plan.oldest[owner] != UINT64_MAX) work->read_of(owner, pulling->plan.oldest[owner]);
    order.push_back(pulling);
    if (reads_directly(*owners, *work) && !pulling->caches)
      read_directly(pulling);
    else
      ask_owners(pulling, {});
  }

  void read_directly(const PullingPtr& pulling) {
    const DirectReadPtr read = direct_read(pulling->plan, *owners);
    read->keepalive = std::make_shared<std::pair<WorkPtr, decltype(keys)>>(pulling->work, keys);
    self->request(owners->direct, caf::infinite, read)
        .then(
            [=, this](uint64_t rows) {
              stage(session, [&] {
                take_direct(*pulling->work, *read, rows);
                ask_owners(pulling, read->found);
              });
            },
            [=, this](caf::error& e) {
              stage(session, [&] {
                const Error why = from_caf(e);
                if (!is_unreachable(why)) throw Error(why);
                pulling->unreachable = no_direct_rows(why);
                ask_owners(pulling, {});
              });
            });
  }

  void ask_owners(const PullingPtr& pulling, std::span<const std::vector<uint8_t>> found) {
    Work& work = *pulling->work;
    route_pull(pulling->plan, *owners, found);
    for (size_t owner = 0; owner < owners->handles.size(); ++owner) {
      if (!is_asked(pulling->plan, owner)) continue;
      ++pulling->open;
      work.owner_rows += keys_of(pulling->plan, owner);
      self->request(owners->handles[owner].shard,
                    pulling->unreachable ? caf::duration(kVerdict) : caf::duration(caf::infinite),
                    pull_request(pulling->plan, owner, work.origin, work.exact, !work.evaluate, owners->wire,
                                 owners->handles[owner].keys))
          .then(
              [=, this](const Message<wire::PullReply>& reply) {
                stage(session, [&] {
                  decoding(Kind::kPullReply, [&] { take_rows(pulling->plan, owner, *owners, reply.get()); });
                  const uint64_t version = reply.get().getVersion();
                  if (pulling->caches) pulling->caches->keep(pulling->plan, owner, version);
                  pulling->work->read_of(owner, version);
                  note_dense(*pulling->work, *owners, pulling->plan, owner, reply.get());
                  arrived(*pulling);
                });
              },
              [=, this](caf::error& e) { owner_failed(*pulling, owner, from_caf(e)); });
    }
    arrived(*pulling);
  }

  void owner_failed(Pulling& pulling, size_t owner, const Error& why) {
    if (is_given_back(*owners, *pulling.work, why)) {
      local_steps = 0;
      arrived(pulling);
    } else if (pulling.unreachable && remedy(why.code()) == Remedy::kRetry) {
      fail_work(pulling, {pulling.unreachable->code(), pulling.unreachable->what()});
    } else {
      fail_work(pulling, owner_failure(owner, why));
    }
  }

  void arrived(Pulling& pulling) {
    if (--pulling.open > 0) return;
    if (pulling.unreachable) fail_work(pulling, {pulling.unreachable->code(), pulling.unreachable->what()});
    hand_on();
  }

  void fail_work(Pulling& pulling, const StageFailure& failure) {
    if (!std::exchange(pulling.failed, true)) self->send(session, failure);
  }

  // Hands on what has all its answers and is first in order.
  void hand_on() {
    for (; !order.empty() && order.front()->open == 0 && !order.front()->failed; order.pop_front()) {
      Work& work = *order.front()->work;
      work.times[StageTimes::kPull] = work.since_pull.lap();
      self->send(next, order.front()->work);
    }
  }
};

}  // namespace

StageActor spawn_puller(caf::actor_system& system, std::shared_ptr<const Owners> owners, ModelSpec model,
                        PullOptions options, StageActor next, StageOwner session) {
  const auto behavior = [](PullerState::Self self, std::shared_ptr<const Owners> owners,
                           const ModelSpec& model, PullOptions options, StageActor next,
                           StageOwner session) -> StageActor::behavior_type {
    PullerState& state = self->state;
    state.self = self;
    state.owners = std::move(owners);
    state.model = model;
    state.keys = std::make_shared<const DenseKeys>(model);
    state.options = options;
    if (options.cache_rows > 0)
      state.caches = std::make_unique<RowCaches>(*state.owners, options.cache_rows, options.cache_staleness);
    state.next = std::move(next);
    state.session = std::move(session);
    return {[&state](const WorkPtr& work) { stage(state.session, [&] { state.pull(work); }); }};
  };
  return system.spawn(behavior, std::move(owners), std::move(model), options, std::move(next),
                      std::move(session));
}

namespace {

// Reads what it can straight from servers. Returns why it could not.
std::optional<Error> read_now(caf::scoped_actor& self, const Owners& owners, Work& work, DirectRead& read) {
  std::optional<Error> error;
  // The read is waited for, so nobody keeps it longer than this call.
  const DirectReadPtr shared(&read, [](DirectRead*) {});
  auto pending = self->request(owners.direct, caf::infinite, shared);
  let_answer(self.ptr());
  pending.receive([&](uint64_t rows) { take_direct(work, read, rows); },
                  [&](caf::error& e) { error = from_caf(e); });
  return error;
}

void pull_from(caf::scoped_actor& self, const Owners& owners, Work& work, std::vector<TableKeyList> lists,
               std::vector<std::span<float>> places, bool directly, caf::duration timeout) {
  PullPlan plan;
  plan.lists = std::move(lists);
  plan.places = std::move(places);
  std::optional<Error> error;
  std::vector<std::vector<uint8_t>> found;
  if (directly) {
    const DirectReadPtr read = direct_read(plan, owners);
    error = read_now(self, owners, work, *read);
    if (error && !is_unreachable(*error)) throw Error(*error);
    if (!error) found = std::move(read->found);
  }
  route_pull(plan, owners, found);
  using Answer = decltype(self->request(owners.handles[0].shard, timeout, Message<wire::PullRequest>()));
  std::vector<std::pair<size_t, Answer>> answers;  // of all owners at once
  for (size_t owner = 0; owner < owners.handles.size(); ++owner)
    if (is_asked(plan, owner))
      answers.emplace_back(
          owner, self->request(owners.handles[owner].shard, timeout,
                               pull_request(plan, owner, work.origin, work.exact, !work.evaluate, owners.wire,
                                            owners.handles[owner].keys)));
  let_answer(self.ptr(), answers.size());
  for (auto& asked : answers) {
    const size_t owner = asked.first;
    std::optional<Error> failed;
    Message<wire::PullReply> reply;
    asked.second.receive([&](const Message<wire::PullReply>& m) { reply = m; },
                         [&](caf::error& e) { failed = from_caf(e); });
    if (failed) {
      const StageFailure why = owner_failure(owner, *failed);
      throw Error(failed->code(), why.message);
    }
    decoding(Kind::kPullReply, [&] { take_rows(plan, owner, owners, reply.get()); });
    work.owner_rows += keys_of(plan, owner);
    work.read_of(owner, reply.get().getVersion());
    note_dense(work, owners, plan, owner, reply.get());
  }
  if (error) throw Error(no_direct_rows(*error));
}

}  // namespace

void pull_now(caf::scoped_actor& self, const Owners& owners, Work& work, std::vector<TableKeyList> lists,
              std::vector<std::span<float>> places, caf::duration timeout) {
  pull_from(self, owners, work, std::move(lists), std::move(places), reads_directly(owners, work), timeout);
}

void pull_dense_again(caf::scoped_actor& self, const Owners& owners, Work& work, KeysView keys,
                      caf::duration timeout) {
  const auto dense = std::find_if(owners.tables.begin(), owners.tables.end(),
                                  [](const TableSpec& table) { return table.name == kDenseTable; });
  const bool came_from_owners =
      std::any_of(work.dense_reads.begin(), work.dense_reads.end(), [](const auto& read) { return !!read; });
  pull_from(self, owners, work, {{static_cast<TableId>(dense - owners.tables.begin()), keys}},
            {work.rows.dense.span()}, reads_directly(owners, work) && !came_from_owners, timeout);
}

}  // namespace embers
