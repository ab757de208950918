#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/floats/prefetch.h"
#include "storage/memory/recent_places.h"
#include "storage/memory/row_index.h"
#include "storage/memory/row_slabs.h"
#include "storage/rows/key_bytes.h"
#include "storage/rows/row_format.h"
#include "storage/rows/store.h"

namespace embers::storage {

// One table of the memory store; its members are Store's of the same names, with their contracts.
//
// A batch is processed step by step: hashes of all keys, their rows (RowIndex::find_all), where those rows
// are, then what is to be done with them. Each step is a plain loop over arrays that stay in cache and
// prefetches what it will need some keys later, so that cache misses overlap. Nothing is allocated per row,
// and nothing that grows is copied at once.
//
// *Thread safety*: none.
class MemoryTable {
 public:
  // `filler` makes pages ahead; it must outlive the table, or be null.
  MemoryTable(const TableSpec& spec, std::span<const float> slot_init, PageFiller* filler = nullptr);

  size_t gather(KeysView keys, std::span<float> out, std::span<uint8_t> found,
                ReadBy reader = ReadBy::kSameThread);
  size_t add_if_absent(KeysView keys, std::span<const float> values, std::span<const uint8_t> found);
  size_t gather_or_create(KeysView keys, const Store::FirstValues& first_values, std::span<float> out,
                          std::span<uint8_t> found, ReadBy reader = ReadBy::kSameThread);
  void update_rows(KeysView keys, std::span<const float> grads, const RowsKernel& kernel, uint64_t step);
  void restore(KeysView keys, std::span<const float> values);
  uint64_t scan(uint64_t cursor, size_t limit, const Store::Visitor& visit);

  // Removes the rows of those `keys` that have one, with their slots; later rows take their place, so that a
  // scan is no longer in order of creation. Returns how many were removed.
  size_t remove(KeysView keys);

  const std::string& name() const { return name_; }
  uint64_t rows() const { return index_.size(); }
  uint64_t resident_bytes() const;

 private:
  uint32_t find(uint64_t hash, const KeysView& keys, size_t i) const;
  // Fills hashes_ with the hashes of the keys, and places_ with the places of their rows, nullptr where there
  // is no row.
  void find_all(KeysView keys);
  void hash_all(KeysView keys) {
    hashes_.resize(keys.size());
    hash_keys(keys, hashes_.data());
  }
  // For byte strings: before the call, the rows in rows_ match the hashes of the keys; afterwards, the keys
  // themselves.
  void compare_keys(KeysView keys);
  // The row of the i-th key, created if there was none. The floats of a created row still have to be set:
  // they are zeros, or what a removed row left behind.
  struct Created {
    uint32_t row;
    enum : uint8_t { kNo, kNew, kAgain } created;
  };
  // The caller has made room for it in the index.
  template <auto matches>
  Created find_or_create(uint64_t hash, const KeysView& keys, size_t i);
  // Finds or creates the rows of the keys whose numbers are in wanted_ (hashes_ has the hashes), and calls
  // write(i, created) for each number i, in order. Some keys at a time: loops that do nothing else prefetch
  // what they need, then each row is created and written.
  template <auto matches, class Write>
  void find_or_create_all(KeysView keys, const Write& write);
  // add_if_absent() once hashes_ has the hashes. places[i], unless `places` is empty, becomes the place of
  // key i, where it is not known to exist.
  void add_absent(KeysView keys, std::span<const float> values, std::span<const uint8_t> found,
                  std::span<float*> places);
  template <auto matches>
  void add_absent_by(KeysView keys, std::span<const float> values, std::span<const uint8_t> found,
                     std::span<float*> places);
  void add_absent_avx512(KeysView keys, std::span<const float> values, std::span<const uint8_t> found,
                         std::span<float*> places);
  // After a search: for the push of these keys, which all have rows.
  void note_places(KeysView keys) {
    if (kind_ == KeyKind::kInt64 && format_.is_float32()) recent_.note(keys.ints, places_);
  }
  // Prefetches the place that is used some rows after the i-th; with the first, all until then.
  EMBERS_PREFETCHES void prefetch_one_ahead(size_t i, size_t floats) const {
    const size_t last = i + rows_ahead(floats);
    for (size_t next = i == 0 ? 1 : last; next <= last && next < places_.size(); ++next)
      if (places_[next] != nullptr) prefetch_row(places_[next], floats);
  }
  // Whether the row has no key; a scan leaves such rows out.
  bool is_free(uint32_t row) const { return !used_.empty() && !used_[row]; }
  KeysView keys_from(uint32_t begin, size_t n);
  // Rows [begin, begin + n) with their slots, as they lie or, where those are halves, in shown_.
  std::span<const float> values_from(uint32_t begin, size_t n);
  void update_halves(std::span<const float> grads, const RowsKernel& kernel, uint64_t step);
  void list_keys();
  uint64_t end_scan();

  // Constant after construction.
  std::string name_;
  KeyKind kind_;
  size_t dim_;
  RowFormat format_;
  size_t width_;   // dim + floats of slots: what callers see
  size_t stride_;  // what a row and its slots take up in a slab, in floats
  std::vector<float> slot_init_;
  bool zero_slots_;  // slot_init_ is what new places hold anyway

  RowIndex index_;
  RowSlabs slabs_;
  KeyBytes key_bytes_;          // only for byte strings
  RecentPlaces recent_;         // only of float32 rows with int64 keys
  std::vector<uint32_t> free_;  // rows whose keys were removed, taken again by new ones
  std::vector<bool> used_;      // of each row; empty until the first remove()

  // How rows are written that another thread reads.
  std::unique_ptr<StoreChoice> store_choice_ = std::make_unique<StoreChoice>();

  std::vector<uint64_t> hashes_;  // scratch of one call
  std::vector<uint32_t> rows_;
  std::vector<uint32_t> wanted_;  // numbers of keys that must have a row
  std::vector<float*> places_;
  std::vector<int64_t> ints_;   // int64 keys of all rows, only while a scan goes on
  std::vector<uint32_t> ends_;  // of the keys that a scan shows
  std::string bytes_;           // their bytes
  std::vector<float> shown_;    // and, of halves, their values
  std::vector<float> row_;      // of halves, the row with slots that an update changes
};

}  // namespace embers::storage
