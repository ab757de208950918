#pragma once

#include <functional>

#include "actors/route.h"
#include "worker/work.h"

namespace embers {

// Keys of the reserved tables, pulled with every minibatch. Constant.
struct DenseKeys {
  explicit DenseKeys(const ModelSpec& model);
  Keys dense{KeyKind::kBytes}, buffers{KeyKind::kBytes};  // in order of dense_chunks()
};

// What one minibatch pulls: the routed keys and where their rows go.
struct PullPlan {
  std::vector<TableKeyList> lists;  // embedding tables in order of Lookups::tables, then the reserved ones
  Routed routed;                    // by owner
  std::vector<std::span<float>> places;  // of each list's rows: keys x dim
};

// Plans the pull of a work and makes room for its rows in work.rows; of the reserved tables' only if
// work.pulls_dense.
PullPlan plan_pull(Work& work, const Owners& owners, const ModelSpec& model, const DenseKeys& keys);

// The one message to `owner`; its answer goes to take_rows.
Message<wire::PullRequest> pull_request(const PullPlan& plan, size_t owner, const Origin& origin, bool exact,
                                        bool create);
void take_rows(const PullPlan& plan, size_t owner, const Owners& owners, wire::PullReply::Reader reply);

// Stage "pull": one message to each owner that holds a key of the minibatch. Works are handed on in the order
// they came. The dense model is pulled by every `get_model_steps`-th training minibatch, and by the first
// after an evaluated one.
StageActor spawn_puller(caf::actor_system& system, std::shared_ptr<const Owners> owners, ModelSpec model,
                        uint32_t get_model_steps, StageActor next, StageOwner worker);

// Waits for the rows of keys that were not deduped ahead, out[keys.size() x dim]; from the trainer's own
// thread.
void pull_now(caf::scoped_actor& self, const Owners& owners, Work& work, TableId table, KeysView keys,
              std::span<float> out);

}  // namespace embers
