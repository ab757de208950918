#include "model/lookup/dedupe.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace embers {
namespace {

constexpr size_t kPrefetchAhead = 16;
constexpr size_t kCachedSlots = size_t{1} << 11;  // up to so many (32 KiB) need no prefetching

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

}  // namespace

void KeyIndex::start(KeyKind kind) {
  unique_ = Keys(kind);
  if (++stamp_ != 0) return;
  slots_.assign(slots_.size(), Slot{});
  stamp_ = 1;
}

Keys KeyIndex::take() {
  Keys keys = std::move(unique_);
  start(keys.kind());
  return keys;
}

size_t KeyIndex::slot_of(uint64_t word) const { return mix(word) & (slots_.size() - 1); }

// Grows at once to what `more` new keys could need; taken slots move to their new places.
void KeyIndex::make_room(size_t more) {
  const size_t most = unique_.size() + more;
  if (most > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    fail(ErrorCode::kInvalid,
         "a minibatch looks up {} ids of one table, but at most 2^31 - 1 are possible: use a smaller "
         "batch_size",
         most);
  if (slots_.size() >= 2 * most) return;
  std::vector<Slot> old(std::bit_ceil(2 * most + 64));
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.stamp != stamp_) continue;
    size_t i = slot_of(slot.word);
    while (slots_[i].stamp == stamp_) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = slot;
  }
}

template <class Same, class Append>
int32_t KeyIndex::place_of(uint64_t word, const Same& same, const Append& append) {
  for (size_t i = slot_of(word);; i = (i + 1) & (slots_.size() - 1)) {
    Slot& slot = slots_[i];
    if (slot.stamp != stamp_) {
      slot = {word, static_cast<int32_t>(unique_.size()), stamp_};
      append();
      return slot.place;
    }
    if (slot.word == word && same(slot.place)) return slot.place;
  }
}

void KeyIndex::add(KeysView keys, bool skip_zero, std::span<int32_t> place) {
  make_room(keys.size());
  if (keys.kind == KeyKind::kInt64) {
    add_ints(keys.ints, skip_zero, place);
  } else {
    add_bytes(keys, skip_zero, place);
  }
}

template <class Out>
void KeyIndex::add_others(KeysView keys, bool skip_zero, std::span<int32_t> place, const Out& out) {
  size_t left_out = 0;
  for (size_t i = 0; i < keys.size(); ++i) left_out += out(i);
  if (left_out == 0) return add(keys, skip_zero, place);
  Keys kept(keys.kind);
  for (size_t i = 0; i < keys.size(); ++i)
    if (!out(i)) kept.push_back_from(keys, i);
  std::vector<int32_t> kept_place(kept.size());
  add(kept, skip_zero, kept_place);
  auto next = kept_place.begin();
  for (size_t i = 0; i < keys.size(); ++i) place[i] = out(i) ? kMasked : *next++;
}

namespace {

bool any_empty(std::span<const int64_t> offsets, std::span<const int32_t> place) {
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    const auto example =
        place.subspan(static_cast<size_t>(offsets[e]), static_cast<size_t>(offsets[e + 1] - offsets[e]));
    if (std::all_of(example.begin(), example.end(), [](int32_t p) { return p == kMasked; })) return true;
  }
  return false;
}

Keys list_of(const TableKey& key) {
  Keys keys(kind_of(key));
  std::visit([&](const auto& k) { keys.push_back(k); }, key);
  return keys;
}

}  // namespace

int32_t KeyIndex::add(KeysView keys, std::span<const int64_t> offsets, std::span<const float> weights,
                      const IdRules& rules, std::span<int32_t> place) {
  const bool by_weight = rules.prune_weights && !weights.empty();
  if (by_weight || rules.prune_ids) {
    add_others(keys, rules.skip_zero, place, [&](size_t i) {
      const bool invalid =
          rules.prune_ids && (keys.kind == KeyKind::kInt64 ? keys.ints[i] < 0 : keys.bytes_at(i).empty());
      return invalid || (by_weight && !(weights[i] > 0));
    });
  } else {
    add(keys, rules.skip_zero, place);
  }
  if (!rules.default_id || !any_empty(offsets, place)) return kMasked;
  int32_t default_place = kMasked;
  add(list_of(*rules.default_id), false, {&default_place, 1});
  return default_place;
}

void KeyIndex::add_ints(std::span<const int64_t> keys, bool skip_zero, std::span<int32_t> place) {
  const bool cached = slots_.size() <= kCachedSlots;
  if (skip_zero) return cached ? add_ints<true, false>(keys, place) : add_ints<true, true>(keys, place);
  return cached ? add_ints<false, false>(keys, place) : add_ints<false, true>(keys, place);
}

// The processor cannot guess whether a key is new, so that question is asked without a jump: something is
// written back either way, what the slot holds or the next place. Jumps are left for keys whose slot another
// key has.
template <bool skip_zero, bool prefetch>
void KeyIndex::add_ints(std::span<const int64_t> keys, std::span<int32_t> place) {
  const auto before = static_cast<int32_t>(unique_.size());
  const size_t mask = slots_.size() - 1;
  const uint32_t stamp = stamp_;
  Slot* const slots = slots_.data();
  fresh_.resize(keys.size() + 1);
  int64_t* const fresh = fresh_.data();
  int32_t count = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (prefetch && i + kPrefetchAhead < keys.size())
      __builtin_prefetch(&slots[mix(static_cast<uint64_t>(keys[i + kPrefetchAhead])) & mask], 1);
    const int64_t key = keys[i];
    if (skip_zero && key == 0) {
      place[i] = kMasked;
      continue;
    }
    const auto word = static_cast<uint64_t>(key);
    size_t at = mix(word) & mask;  // no call: this library's functions can be replaced, so are not inlined
    const auto others = [&] {      // & and not &&, which would be two jumps, one of them the question above
      return (static_cast<unsigned>(slots[at].stamp == stamp) &
              static_cast<unsigned>(slots[at].word != word)) != 0;
    };
    while (others()) at = (at + 1) & mask;
    const int32_t known = -static_cast<int32_t>(slots[at].stamp == stamp);  // all bits, or none
    const int32_t mine = (slots[at].place & known) | ((before + count) & ~known);
    slots[at] = {word, mine, stamp};
    fresh[count] = key;  // stays if it is new
    count += 1 + known;
    place[i] = mine;
  }
  unique_.reserve(unique_.size() + static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) unique_.push_back(fresh[i]);
}

void KeyIndex::add_bytes(KeysView keys, bool skip_zero, std::span<int32_t> place) {
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string_view key = keys.bytes_at(i);
    const auto same = [&](int32_t at) { return unique_.view().bytes_at(static_cast<size_t>(at)) == key; };
    place[i] =
        skip_zero && key.empty() ? kMasked : place_of(hash_key(key), same, [&] { unique_.push_back(key); });
  }
}

namespace {

void check_kind(const Ids& ids, KeyKind kind, size_t feature) {
  if (ids.keys.kind() != kind)
    fail(ErrorCode::kInvalid, "categorical feature {} gives {} ids to a table with {} keys", feature,
         name(ids.keys.kind()), name(kind));
}

// Whether two sources look up the same of a feature's ids.
bool same_ids(const LookupPlan::Source& a, const LookupPlan::Source& b, const data::Minibatch& minibatch) {
  if (a.feature != b.feature) return false;
  IdRules rules = a.rules;
  if (minibatch.ids[a.feature].weights.empty()) rules.prune_weights = b.rules.prune_weights;
  return rules == b.rules;
}

// Whether sources from `a` on, all of a's table, are looked up as those from `b` on, all of b's.
bool same_ids(const LookupPlan& plan, size_t a, size_t b, const data::Minibatch& minibatch) {
  const auto& s = plan.sources;
  const TableId table_a = s[a].table, table_b = s[b].table;
  for (; a < s.size() && s[a].table == table_a; ++a, ++b)
    if (b == s.size() || s[b].table != table_b || !same_ids(s[a], s[b], minibatch)) return false;
  return b == s.size() || s[b].table != table_b;
}

// Tables of a model, such as a wide and a deep one, are often looked up by the same features. Gives the
// sources from `i` on what those of such an earlier table have; false when there is none.
bool copy_of_earlier(const LookupPlan& plan, size_t i, const data::Minibatch& minibatch, Lookups& lookups) {
  for (size_t e = 0; e < i; ++e) {
    if ((e > 0 && plan.sources[e - 1].table == plan.sources[e].table) || !same_ids(plan, i, e, minibatch))
      continue;
    const TableId table = plan.sources[i].table;
    const auto has = std::find_if(lookups.tables.begin(), lookups.tables.end(),
                                  [&](const Lookups::Table& t) { return t.table == plan.sources[e].table; });
    if (has != lookups.tables.end()) {
      Keys unique = has->unique;
      lookups.tables.push_back({table, std::move(unique)});
    }
    for (; i < plan.sources.size() && plan.sources[i].table == table; ++i, ++e) {
      std::vector<int32_t> position = lookups.inverses[e].position;
      const int32_t default_place = lookups.inverses[e].default_place;
      lookups.inverses.push_back(
          {plan.sources[i].layer, plan.sources[i].feature, std::move(position), default_place});
    }
    return true;
  }
  return false;
}

}  // namespace

Lookups dedupe(const LookupPlan& plan, const data::Minibatch& minibatch) {
  Lookups lookups;
  KeyIndex index;
  for (size_t i = 0; i < plan.sources.size();) {
    const TableId table = plan.sources[i].table;
    for (size_t s = i; s < plan.sources.size() && plan.sources[s].table == table; ++s)
      check_kind(minibatch.ids.at(plan.sources[s].feature), plan.kinds[table], plan.sources[s].feature);
    if (copy_of_earlier(plan, i, minibatch, lookups)) {
      while (i < plan.sources.size() && plan.sources[i].table == table) ++i;
      continue;
    }
    index.start(plan.kinds[table]);
    for (; i < plan.sources.size() && plan.sources[i].table == table; ++i) {
      const LookupPlan::Source& source = plan.sources[i];
      const Ids& ids = minibatch.ids.at(source.feature);
      std::vector<int32_t> position(ids.keys.size());
      const int32_t default_place = index.add(ids.keys, ids.offsets, ids.weights, source.rules, position);
      lookups.inverses.push_back({source.layer, source.feature, std::move(position), default_place});
    }
    if (!index.unique().empty()) lookups.tables.push_back({table, index.take()});
  }
  return lookups;
}

}  // namespace embers
