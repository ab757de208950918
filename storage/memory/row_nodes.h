#pragma once

#include <utility>

#include "base/floats/prefetch.h"
#include "storage/memory/pages.h"
#include "storage/memory/row_bucket.h"

namespace embers::storage {

// The nodes of a RowIndex, by numbers from 1 on; nodes that were given back are reused first.
//
// *Thread safety*: none.
class RowNodes {
 public:
  RowNode& operator[](uint32_t number) { return data_[number].node; }
  const RowNode& operator[](uint32_t number) const { return data_[number].node; }
  EMBERS_PREFETCHES void prefetch(uint32_t number) const { __builtin_prefetch(data_ + number); }

  // Reserves memory for `nodes` calls of take(). Throws std::bad_alloc.
  void reserve(uint32_t nodes) {
    if (free_count_ + (room_ - end_) < nodes) [[unlikely]]
      grow(nodes);
  }
  // An empty node, linked to `next`. The caller has reserved it.
  uint32_t take(uint32_t next) {
    const uint32_t number = free_ != 0 ? take_free() : end_++;
    data_[number].node.count = 0;
    data_[number].node.next = next;
    return number;
  }
  // Gives a node back, and returns the number of the one after it.
  uint32_t give_back(uint32_t number) {
    const uint32_t next = data_[number].node.next;
    ++free_count_;
    if (free_ == 0 || data_[free_].list.count == List::kMost) {
      data_[number].list.count = 0;
      data_[number].list.next = std::exchange(free_, number);
    } else {
      List& list = data_[free_].list;
      list.numbers[list.count++] = number;
    }
    return next;
  }

  uint64_t resident_bytes() const;

 private:
  // A free node. It also lists other free nodes, so that these can be prefetched before they are taken.
  struct List {
    static constexpr uint32_t kMost = 6;

    uint32_t numbers[kMost];
    uint32_t count;
    uint32_t next;  // number of the next list, 0 for none
  };
  union Place {
    RowNode node;
    List list;
  };
  static_assert(sizeof(Place) == sizeof(RowNode));

  void grow(uint32_t nodes);
  uint32_t take_free() {
    --free_count_;
    List& list = data_[free_].list;
    if (list.count == 0) {
      const uint32_t number = std::exchange(free_, list.next);
      const List& others = data_[free_].list;
      if (free_ != 0) {
        for (uint32_t k = 0; k < others.count; ++k) prefetch(others.numbers[k]);
        prefetch(others.next);
      }
      return number;
    }
    return list.numbers[--list.count];
  }

  Pages pages_;
  Place* data_ = nullptr;
  uint32_t room_ = 1;  // nodes that pages_ has room for; number 0 is no node
  uint32_t end_ = 1;   // no node from this number on was ever taken
  uint32_t free_ = 0;  // the first list
  uint32_t free_count_ = 0;
};

}  // namespace embers::storage
