#include "model/dedupe.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace embers {
namespace {

constexpr size_t kPrefetchAhead = 16;

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
         "a minibatch looks up {} ids of one table, at most 2^31 - 1 are possible: use a smaller "
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

void KeyIndex::add_weighted(KeysView keys, std::span<const float> weights, bool skip_zero,
                            std::span<int32_t> place) {
  const auto out = [](float w) { return !(w > 0); };
  if (std::none_of(weights.begin(), weights.end(), out)) return add(keys, skip_zero, place);
  Keys kept(keys.kind);
  for (size_t i = 0; i < keys.size(); ++i)
    if (!out(weights[i])) kept.push_back_from(keys, i);
  std::vector<int32_t> kept_place(kept.size());
  add(kept, skip_zero, kept_place);
  auto next = kept_place.begin();
  for (size_t i = 0; i < keys.size(); ++i) place[i] = out(weights[i]) ? kMasked : *next++;
}

void KeyIndex::add_ints(std::span<const int64_t> keys, bool skip_zero, std::span<int32_t> place) {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kPrefetchAhead < keys.size())
      __builtin_prefetch(&slots_[slot_of(static_cast<uint64_t>(keys[i + kPrefetchAhead]))], 1);
    const int64_t key = keys[i];
    place[i] = skip_zero && key == 0 ? kMasked
                                     : place_of(
                                           static_cast<uint64_t>(key), [](int32_t) { return true; },
                                           [&] { unique_.push_back(key); });
  }
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

}  // namespace

Lookups dedupe(const LookupPlan& plan, const data::Minibatch& minibatch) {
  Lookups lookups;
  KeyIndex index;
  for (size_t i = 0; i < plan.sources.size();) {
    const TableId table = plan.sources[i].table;
    index.start(plan.kinds[table]);
    for (; i < plan.sources.size() && plan.sources[i].table == table; ++i) {
      const LookupPlan::Source& source = plan.sources[i];
      const Ids& ids = minibatch.ids.at(source.feature);
      check_kind(ids, plan.kinds[table], source.feature);
      std::vector<int32_t> position(ids.keys.size());
      if (source.prune && !ids.weights.empty()) {
        index.add_weighted(ids.keys, ids.weights, source.skip_zero, position);
      } else {
        index.add(ids.keys, source.skip_zero, position);
      }
      lookups.inverses.push_back({source.layer, source.feature, std::move(position)});
    }
    if (!index.unique().empty()) lookups.tables.push_back({table, index.take()});
  }
  return lookups;
}

}  // namespace embers
