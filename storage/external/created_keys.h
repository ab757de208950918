#pragma once

#include "storage/memory/row_index.h"
#include "storage/rows/key_column.h"

namespace embers::storage {

// The keys of a table in order of creation: what an external store, which cannot list its keys, must
// remember. *Thread safety*: none.
class CreatedKeys {
  auto same(KeysView keys, size_t i) const {
    return [this, keys, i](uint32_t row) { return keys_.equals(row, keys, i); };
  }

 public:
  CreatedKeys(KeyKind kind, PageFiller* filler) : keys_(kind), index_(filler) {}

  bool contains(KeysView keys, size_t i) const {
    return index_.find(hash_key(keys, i), same(keys, i)) != RowIndex::kNone;
  }
  // Adds the i-th of `keys`; returns whether it was new.
  bool insert(KeysView keys, size_t i) {
    const uint32_t next = size();
    if (index_.find_or_insert(hash_key(keys, i), next, same(keys, i)) != next) return false;
    keys_.push_back_from(keys, i);
    return true;
  }
  uint32_t size() const { return static_cast<uint32_t>(index_.size()); }
  // The same as KeyColumn::view.
  KeysView view(uint32_t begin, size_t n) { return keys_.view(begin, n); }
  uint64_t resident_bytes() const { return keys_.resident_bytes() + index_.resident_bytes(); }

 private:
  KeyColumn keys_;
  RowIndex index_;
};

}  // namespace embers::storage
