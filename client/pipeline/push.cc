#include "client/pipeline/push.h"

#include <limits>
#include <map>

#include "actors/errors.h"
#include "base/floats/finite.h"

namespace embers {
namespace {

// One minibatch's gradients of a table whose columns are split over owners. A row that is not finite, or
// would not be after it was sent, is refused or left out by all owners alike: each of them is shown a NaN.
class SplitGradients {
 public:
  SplitGradients(std::span<const float> values, uint32_t dim, NumberType sent) : values_(values), dim_(dim) {
    if (sent == NumberType::kFloat32) {
      look_for_bad(values);
      return;
    }
    FloatBuffer arrived(values.size());
    std::copy(values.begin(), values.end(), arrived.data());
    round_to(sent, arrived.span());
    look_for_bad(arrived.span());
  }

  void collect(const RoutedTable& part, std::span<float> out) const {
    collect_columns(values_, dim_, part.columns, part.positions, out);
    for (size_t i = 0; !bad_.empty() && i < part.positions.size(); ++i)
      if (bad_[part.positions[i]]) out[i * part.columns.size()] = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  void look_for_bad(std::span<const float> values) {
    if (all_below(kInfiniteGradient, values)) return;
    bad_.resize(values.size() / dim_);
    for (size_t i = 0; i < bad_.size(); ++i)
      bad_[i] = !all_below(kInfiniteGradient, values.subspan(i * dim_, dim_));
  }

  const std::span<const float> values_;
  const uint32_t dim_;
  std::vector<uint8_t> bad_;  // by row; empty if there is none
};

struct PusherState {
  static inline const char* name = "pusher";
};

// One minibatch whose acknowledgements are on their way.
struct Pushing {
  WorkPtr work;
  size_t open = 1;
  bool failed = false;
};

Message<wire::DoneRequest> done_request(const Work& work) {
  return make_message<wire::DoneRequest>([&](wire::DoneRequest::Builder b) {
    b.setIncarnation(work.origin.incarnation);
    b.setLease(work.lease);
    b.setMinibatch(work.origin.minibatch);
    b.setAttempt(work.origin.attempt);
    b.setReturned(work.refused);
    b.setExamples(work.report.examples);
    b.setSkipped(work.report.skipped);
    b.setLossSum(work.report.loss_sum);
    b.setScores(as_data(work.report.scores));
    b.setLabels(as_data(work.report.labels));
    if (work.evaluate) b.setRecords(as_data(work.report.records));
    b.setLatePulls(work.late_pulls);
    uint64_t keys = 0;
    for (const TableKeyList& list : work.keys) keys += list.keys.size();
    b.setKeys(keys);
    b.setCacheHits(work.cache_hits);
    b.setStageSeconds(kj::arrayPtr(work.times.seconds.data(), work.times.seconds.size()));
    b.setDirectRows(work.direct_rows);
    b.setOwnerRows(work.owner_rows);
  });
}

using Self = StageActor::stateful_pointer<PusherState>;

// The session's leases and heartbeats also notice a master that is gone or refuses, but this is where the
// work ends.
void report_done(Self self, const MasterActor& master, const StageOwner& session, const WorkPtr& work) {
  self->request(master, caf::infinite, done_request(*work))
      .then([=](const Message<wire::DoneReply>&) { self->send(session, work); },
            [=](caf::error& e) {
              const Error why = from_caf(e);  // the session itself hears that a master is gone
              if (remedy(why.code()) != Remedy::kRetry)
                self->send(session, StageFailure{why.code(), why.what()});
            });
}

}  // namespace

std::vector<Message<wire::PushRequest>> push_requests(const Work& work, const Owners& owners,
                                                      const ModelSpec& model, const DenseKeys& keys) {
  std::vector<TableKeyList> lists;
  std::vector<std::span<const float>> values;
  const auto add = [&](TableId table, KeysView list, std::span<const float> floats) {
    if (list.empty() || floats.empty()) return;
    lists.push_back({table, list});
    values.push_back(floats);
  };
  for (const TableGradients& g : work.gradients) add(g.table, g.keys, g.values);
  if (!keys.dense.empty()) add(model.table_id(kDenseTable), keys.dense, work.dense);
  if (!keys.buffers.empty()) add(model.table_id(kBufferTable), keys.buffers, work.buffers);

  const Routed routed = route(lists, owners.tables, owners.map, owners.handles.size());
  std::map<size_t, SplitGradients> split;  // by source
  for (size_t i = 0; i < lists.size(); ++i) {
    const TableSpec& table = owners.tables[lists[i].table];
    if (is_split(table, routed.size()))
      split.try_emplace(i, values[i], table.dim, sent_as(table, owners.wire));
  }
  std::vector<Message<wire::PushRequest>> requests;
  for (size_t owner = 0; owner < routed.size(); ++owner) {
    std::vector<FloatBuffer> parts;
    std::vector<TableSlices> tables;
    for (const RoutedTable& part : routed[owner]) {
      const uint32_t dim = part.columns.size();
      std::span<const float> mine = values[part.source];
      if (routed.size() > 1) {
        parts.emplace_back(part.keys.size() * dim);
        if (const auto columns = split.find(part.source); columns != split.end())
          columns->second.collect(part, parts.back().span());
        else
          collect(values[part.source], dim, part.positions, parts.back().span());
        mine = parts.back().span();
      }
      tables.push_back({part.table, part.keys, dim, mine, sent_as(owners.tables[part.table], owners.wire)});
    }
    Origin origin = work.origin;
    if (!work.exact) origin.version = work.versions[owner].value_or(0);
    requests.push_back(make_push(origin, tables, owners.memory.get(), owners.handles[owner].keys));
  }
  return requests;
}

StageActor spawn_pusher(caf::actor_system& system, std::shared_ptr<const Owners> owners, ModelSpec model,
                        MasterActor master, StageOwner session) {
  const auto behavior = [](Self self, std::shared_ptr<const Owners> owners, const ModelSpec& model,
                           const DenseKeys& keys, MasterActor master,
                           StageOwner session) -> StageActor::behavior_type {
    return {[=](const WorkPtr& work) {
      stage(session, [&] {
        auto pushing = std::make_shared<Pushing>();
        pushing->work = work;
        work->since_push.lap();
        const auto acknowledged = [=] {
          if (--pushing->open > 0 || pushing->failed) return;
          work->times[StageTimes::kPush] = work->since_push.lap();
          self->send(session, pushed_atom::value);
          report_done(self, master, session, work);
        };
        if (!work->evaluate && !work->refused) {
          const auto requests = push_requests(*work, *owners, model, keys);
          pushing->open += requests.size();
          for (size_t owner = 0; owner < requests.size(); ++owner)
            self->request(owners->handles[owner].optimizer, caf::infinite, requests[owner])
                .then(
                    [=](const Message<wire::PushReply>& reply) {
                      if (work->not_applied && reply.get().getOutcome() != wire::PushReply::Outcome::APPLIED)
                        work->not_applied->add(owner);
                      acknowledged();
                    },
                    [=](caf::error& e) {
                      const Error why = from_caf(e);
                      if (work->not_applied) work->not_applied->add(owner);
                      if (!is_given_back(*owners, *work, why) && !std::exchange(pushing->failed, true))
                        self->send(session, owner_failure(owner, why));
                      acknowledged();
                    });
        }
        acknowledged();
      });
    }};
  };
  return system.spawn(behavior, std::move(owners), model, DenseKeys(model), std::move(master),
                      std::move(session));
}

}  // namespace embers
