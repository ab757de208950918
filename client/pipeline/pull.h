#pragma once

#include <functional>

#include "actors/routing/route.h"
#include "client/pipeline/work.h"

namespace embers {

// Keys of the reserved tables, pulled with every minibatch. Constant.
struct DenseKeys {
  explicit DenseKeys(const ModelSpec& model);
  Keys dense{KeyKind::kBytes}, buffers{KeyKind::kBytes};  // in order of dense_chunks()
};

class RowCaches;  // cached_pull.h

// What one minibatch pulls: the routed keys and where their rows go.
struct PullPlan {
  std::vector<TableKeyList> lists;       // embedding tables in order of Work::keys, then the reserved ones
  std::vector<std::span<float>> places;  // of each list's rows: keys x dim
  Routed routed;                         // what is asked of each owner
  // With a cache: the part of each list that it did not have; `lists` are then views of these parts. Null for
  // a list that is pulled whole.
  struct Rest {
    Keys keys;
    std::vector<uint32_t> positions;  // of the keys in the whole list, ascending
  };
  std::vector<std::unique_ptr<Rest>> rests;
  std::vector<uint64_t> oldest;  // by owner: version of the oldest row from the cache; UINT64_MAX: none
  uint64_t step = 0;             // the cache's

  // Turns positions in what a cache left of a list into positions in the whole list.
  void restore_positions();
};

// Lists what a work pulls and makes room for it in work.rows; of the reserved tables only if
// work.pulls_dense. With `caches`, rows of embedding tables that the caches have are put in their places and
// left out of the plan.
PullPlan plan_pull(Work& work, const Owners& owners, const ModelSpec& model, const DenseKeys& keys,
                   RowCaches* caches = nullptr);

// Spreads the keys that were not found yet over owners: `found` has flags for the keys of each list, or is
// empty.
void route_pull(PullPlan& plan, const Owners& owners, std::span<const std::vector<uint8_t>> found = {});

// The one message to `owner`; its answer goes to take_rows.
Message<wire::PullRequest> pull_request(const PullPlan& plan, size_t owner, const Origin& origin, bool exact,
                                        bool create, NumberType rows_as = NumberType::kFloat32,
                                        KeysSent keys = KeysSent::kAsTheyAre);
void take_rows(const PullPlan& plan, size_t owner, const Owners& owners, wire::PullReply::Reader reply);

// Stage "pull": where owners keep their rows in servers, reads the latest rows straight from there; then
// sends one message to each owner that holds a key which is still open. So owners are asked when exactly one
// version is wanted, for keys that are new (the owner makes their rows) or lost (it says so), and for all
// keys when a server does not answer: the owner may know why; if not, the work fails here. Works are handed
// on in the order in which they came. The dense model is pulled by every `get_model_steps`-th training
// minibatch, and by the first after an evaluated one. Training minibatches go through a cache of `cache_rows`
// rows of each embedding table (0: none), which are used for `cache_staleness` more minibatches after the one
// they were pulled for; what it does not have is asked of owners, even when rows are in servers.
// Tables whose columns are split over owners are always asked of owners, and not cached.
struct PullOptions {
  uint32_t get_model_steps = 1;
  uint64_t cache_rows = 0;
  uint32_t cache_staleness = 0;
};
StageActor spawn_puller(caf::actor_system& system, std::shared_ptr<const Owners> owners, ModelSpec model,
                        PullOptions options, StageActor next, StageOwner session);

// Waits for rows, in a thread of the caller's: those of keys that were not deduped ahead, and look-ups. Each
// list's rows go to its place, keys x dim. An owner's error is thrown as it came (see owner_failure); one
// that has not answered in time is named in a kTimeout.
void pull_now(caf::scoped_actor& self, const Owners& owners, Work& work, std::vector<TableKeyList> lists,
              std::vector<std::span<float>> places, caf::duration timeout = caf::infinite);
// The same for the work's dense parameters, which were pulled ahead: `keys` are all of them. They come from
// where they came from before, so that work.dense_reads says which ones they are. There is no time limit on
// what is read straight from servers.
void pull_dense_again(caf::scoped_actor& self, const Owners& owners, Work& work, KeysView keys,
                      caf::duration timeout = caf::infinite);

}  // namespace embers
