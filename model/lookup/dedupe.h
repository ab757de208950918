#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/minibatch.h"
#include "model/lookup/combine.h"
#include "schema/ids.h"
#include "schema/table_spec.h"

namespace embers {

// Place of an id that mask_zero or its weight leaves out: it is neither looked up nor given a gradient.
inline constexpr int32_t kMasked = -1;

// Result of stage "dedupe": for one minibatch the unique keys of each embedding table, in order of first
// appearance over its layers' features in declared order, and for each (layer, feature) the place of each id
// among them.
struct Lookups {
  struct Table {
    TableId table;
    Keys unique;
  };
  std::vector<Table> tables;  // tables with at least one key, in order of table id
  struct Inverse {
    size_t layer;                   // index in discovery order
    size_t feature;                 // index into Minibatch::ids
    std::vector<int32_t> position;  // of each id of the feature in its table's unique keys, or kMasked
  };
  std::vector<Inverse> inverses;
};

// What the stage needs to know of a model; constant after the model was discovered.
struct LookupPlan {
  struct Source {
    TableId table;
    size_t layer;
    size_t feature;
    bool skip_zero;      // ids 0 and "" are padding
    bool prune = false;  // ids of weight <= 0 are left out, see prunes()
  };
  std::vector<KeyKind> kinds;   // of the embedding tables, by id
  std::vector<Source> sources;  // ordered by table, then layer, then the layer's declared order of features
};

// Whether a combiner leaves out ids of weight <= 0, as tf.nn.safe_embedding_lookup_sparse does: unless it is
// sum.
constexpr bool prunes(Combiner combiner) {
  return combiner == Combiner::kMean || combiner == Combiner::kSqrtN;
}

// Pure; any thread. kInvalid when a feature's ids are of another kind than its table's keys.
Lookups dedupe(const LookupPlan& plan, const data::Minibatch& minibatch);

// Unique keys in order of first appearance, by open addressing; byte strings are compared in full. Slots are
// kept between uses, so that one index serves table after table without allocating. *Thread safety*: none.
class KeyIndex {
 public:
  explicit KeyIndex(KeyKind kind = KeyKind::kInt64) : unique_(kind) {}

  // Forgets all keys; those that follow are of `kind`.
  void start(KeyKind kind);
  // place[i] becomes the place of keys[i] in unique(), which gets the new ones appended; with skip_zero, keys
  // 0 and
  // "" get kMasked instead. place.size() == keys.size(), keys of the kind given to start().
  void add(KeysView keys, bool skip_zero, std::span<int32_t> place);
  // The same, but keys of weight <= 0 get kMasked; weights.size() == keys.size().
  void add_weighted(KeysView keys, std::span<const float> weights, bool skip_zero, std::span<int32_t> place);
  const Keys& unique() const { return unique_; }
  // Hands the keys over and forgets them.
  Keys take();

 private:
  // `word` is the key itself, or the hash of its bytes. A slot of another stamp is free.
  struct Slot {
    uint64_t word = 0;
    int32_t place = 0;
    uint32_t stamp = 0;
  };
  void make_room(size_t more);
  void add_ints(std::span<const int64_t> keys, bool skip_zero, std::span<int32_t> place);
  template <bool skip_zero, bool prefetch>
  void add_ints(std::span<const int64_t> keys, std::span<int32_t> place);
  void add_bytes(KeysView keys, bool skip_zero, std::span<int32_t> place);
  size_t slot_of(uint64_t word) const;
  template <class Same, class Append>
  int32_t place_of(uint64_t word, const Same& same, const Append& append);

  // Invariant: slots_.size() is a power of two, and at most half of the slots are taken.
  std::vector<Slot> slots_;
  uint32_t stamp_ = 1;
  std::vector<int64_t> fresh_;  // scratch of add_ints
  Keys unique_;
};

}  // namespace embers
