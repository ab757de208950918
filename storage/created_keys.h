#pragma once

#include "storage/key_column.h"
#include "storage/row_index.h"

namespace embers::storage {

// The keys of a table in order of creation: what an external store, which cannot list its keys, must
// remember. *Thread safety*: none.
class CreatedKeys {
 public:
  explicit CreatedKeys(KeyKind kind) : keys_(kind) {}

  bool contains(KeysView keys, size_t i) const {
    return index_.find(hash_key(keys, i), [&](uint32_t row) { return keys_.equals(row, keys, i); }) !=
           RowIndex::kNone;
  }
  // Whether the i-th of `keys` is new; it is not afterwards.
  bool insert(KeysView keys, size_t i) {
    if (contains(keys, i)) return false;
    keys_.push_back_from(keys, i);
    index_.append(hash_key(keys, i), [this](uint32_t older) { return keys_.hash(older); });
    return true;
  }
  uint32_t size() const { return index_.rows(); }
  // As KeyColumn::view.
  KeysView view(uint32_t begin, size_t n) { return keys_.view(begin, n); }
  uint64_t resident_bytes() const { return keys_.resident_bytes() + index_.resident_bytes(); }

 private:
  KeyColumn keys_;
  RowIndex index_;
};

}  // namespace embers::storage
