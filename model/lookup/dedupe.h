#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "data/minibatch.h"
#include "model/lookup/combiner.h"
#include "schema/ids.h"
#include "schema/table_spec.h"

namespace embers {

// Place of an id that is left out (see IdRules): it is neither looked up nor given a gradient.
inline constexpr int32_t kMasked = -1;

// One key of a table.
using TableKey = std::variant<int64_t, std::string>;
inline KeyKind kind_of(const TableKey& key) { return key.index() == 0 ? KeyKind::kInt64 : KeyKind::kBytes; }

// Which of a feature's ids a layer looks up.
struct IdRules {
  bool skip_zero = false;                // leaves out 0 and "": padding
  bool prune_weights = false;            // leaves out ids of weight <= 0
  bool prune_ids = false;                // leaves out ids < 0 and ""
  std::optional<TableKey> default_id{};  // key given to an example without any id; never a padding key
  friend bool operator==(const IdRules&, const IdRules&) = default;
};

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
    size_t layer;                     // index in discovery order
    size_t feature;                   // index into Minibatch::ids
    std::vector<int32_t> position;    // of each id of the feature in its table's unique keys, or kMasked
    int32_t default_place = kMasked;  // of the default id, if an example without ids needs it
  };
  std::vector<Inverse> inverses;
};

// What the stage needs to know of a model; constant after the model was discovered.
struct LookupPlan {
  struct Source {
    TableId table;
    size_t layer;
    size_t feature;
    IdRules rules{};
  };
  std::vector<KeyKind> kinds;   // of the embedding tables, by id
  std::vector<Source> sources;  // ordered by table, then layer, then the layer's declared order of features
};

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
  // 0 and "" get kMasked instead. place.size() == keys.size(), keys of the kind given to start().
  void add(KeysView keys, bool skip_zero, std::span<int32_t> place);
  // The same for the ids of examples: offsets as in Ids, weights may be empty. Returns the place of the
  // default id if an example needs it, else kMasked.
  int32_t add(KeysView keys, std::span<const int64_t> offsets, std::span<const float> weights,
              const IdRules& rules, std::span<int32_t> place);
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
  // add() without the keys for which out(i).
  template <class Out>
  void add_others(KeysView keys, bool skip_zero, std::span<int32_t> place, const Out& out);
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
