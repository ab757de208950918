#pragma once

#include "base/floats/prefetch.h"
#include "storage/memory/pages.h"
#include "storage/memory/row_bucket.h"

namespace embers::storage {

// The nodes of a RowIndex, by numbers from 1 on; nodes that were given back are reused first.
//
// *Thread safety*: none.
class RowNodes {
 public:
  RowNode& operator[](uint32_t number) { return data_[number]; }
  const RowNode& operator[](uint32_t number) const { return data_[number]; }
  EMBERS_PREFETCHES void prefetch(uint32_t number) const { __builtin_prefetch(data_ + number); }

  // Reserves memory for `nodes` calls of take(). Throws std::bad_alloc.
  void reserve(uint32_t nodes) {
    if (free_count_ + (room_ - end_) < nodes) [[unlikely]]
      grow(nodes);
  }
  // An empty node, linked to `next`. The caller has reserved it.
  uint32_t take(uint32_t next) {
    const uint32_t number = free_ != 0 ? free_ : end_++;
    if (free_ != 0) {
      free_ = data_[number].next;
      --free_count_;
    }
    data_[number].count = 0;
    data_[number].next = next;
    return number;
  }
  // Gives a node back, and returns the number of the one after it.
  uint32_t give_back(uint32_t number) {
    const uint32_t next = data_[number].next;
    data_[number].next = free_;
    free_ = number;
    ++free_count_;
    return next;
  }

  uint64_t resident_bytes() const;

 private:
  void grow(uint32_t nodes);

  Pages pages_;
  RowNode* data_ = nullptr;
  uint32_t room_ = 1;  // nodes that pages_ has room for; number 0 is no node
  uint32_t end_ = 1;   // no node from this number on was ever taken
  uint32_t free_ = 0;  // first of those that were given back
  uint32_t free_count_ = 0;
};

}  // namespace embers::storage
