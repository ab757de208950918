#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/floats/prefetch.h"
#include "schema/ids.h"
#include "schema/table_spec.h"

namespace embers::storage {

// Changes one row in place. `row` is dim floats, `slots` the update rule's slots of the row one after
// another, `grad` dim floats of the i-th key given to update().
using UpdateKernel =
    std::function<void(std::span<float> row, std::span<float> slots, std::span<const float> grad)>;

// Rows of one update: rows[i] are `dim` floats, followed by `slot_floats` floats of slots; grads[size() x
// dim]. One row may come more than once.
struct RowsToUpdate {
  std::span<float* const> rows;
  size_t dim;
  size_t slot_floats;
  std::span<const float> grads;

  size_t size() const { return rows.size(); }
  std::span<float> row(size_t i) const { return {rows[i], dim}; }
  std::span<float> slots(size_t i) const { return {rows[i] + dim, slot_floats}; }
  std::span<const float> grad(size_t i) const { return grads.subspan(i * dim, dim); }
};
// Changes them in place, in order; the keys of an update come in one call or in several. Reading rows is what
// is slow, so kernels prefetch those that follow, as prefetch_ahead() does.
using RowsKernel = std::function<void(const RowsToUpdate& rows)>;

// Prefetches the row, with its slots, that comes some rows after the i-th; with the first, all until then.
EMBERS_PREFETCHES void prefetch_ahead(const RowsToUpdate& rows, size_t i) {
  const size_t floats = rows.dim + rows.slot_floats, last = i + rows_ahead(floats);
  for (size_t next = i == 0 ? 1 : last; next <= last && next < rows.size(); ++next)
    prefetch_row(rows.rows[next], floats);
}
// Runs `kernel` on one row after another.
inline RowsKernel rows_kernel(UpdateKernel kernel) {
  return [kernel = std::move(kernel)](const RowsToUpdate& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      prefetch_ahead(rows, i);
      kernel(rows.row(i), rows.slots(i), rows.grad(i));
    }
  };
}

// Who reads the rows that a store has copied, which may change how they are written.
enum class ReadBy { kSameThread, kOtherThread };

// Where the rows of a shard live. *Thread safety*: none; a store belongs to one shard actor.
//
// Invariants: (1) a key has at most one row; (2) a row's slots are created with it; (3) only add_if_absent,
// gather_or_create, restore and update change anything. Rows go in and out as float32, whatever they are kept
// as; those kept as halves are rounded to nearest when they are created or restored, and as their table says
// when they change.
class Store {
 public:
  virtual ~Store() = default;

  // Adds the table; ids are given in order 0, 1, ... `slot_init` are the first values of the slots of a row;
  // their number is the table's slot_floats.
  virtual void add_table(const TableSpec& spec, std::span<const float> slot_init) = 0;

  // Copies the rows of `keys` (repeats allowed) to out[keys.size() x dim]; found[i] says whether key i has a
  // row; out is left alone where it has none. Returns how many were found. `reader`: who reads `out` next.
  virtual size_t gather(TableId table, KeysView keys, std::span<float> out, std::span<uint8_t> found,
                        ReadBy reader = ReadBy::kSameThread) = 0;

  // Creates rows for those `keys` that have none, from values[keys.size() x dim], slots at their first
  // values. found[i] != 0 means that the caller knows that key i exists; it is skipped. Returns how many were
  // created.
  virtual size_t add_if_absent(TableId table, KeysView keys, std::span<const float> values,
                               std::span<const uint8_t> found = {}) = 0;

  // gather(), after rows for those `keys` were created that had none: `first_values` writes their first
  // values to out where found[i] == 0. Returns how many keys have a row in the end, which are all of them
  // unless a server has lost some.
  using FirstValues = std::function<void(std::span<float> out, std::span<const uint8_t> found)>;
  virtual size_t gather_or_create(TableId table, KeysView keys, const FirstValues& first_values,
                                  std::span<float> out, std::span<uint8_t> found,
                                  ReadBy reader = ReadBy::kSameThread) {
    if (gather(table, keys, out, found, reader) == keys.size()) return keys.size();
    first_values(out, found);
    add_if_absent(table, keys, out, found);
    return gather(table, keys, out, found, reader);
  }

  // Applies kernel to the row of each key with its gradient, grads[keys.size() x dim], in order. A key
  // without a row is kMissingKey naming table and key, and then nothing was changed. Stochastic rounding of
  // rows is a function of table, key, column and `step`, which should be a different one for each update.
  void update(TableId table, KeysView keys, std::span<const float> grads, const UpdateKernel& kernel,
              uint64_t step = 0) {
    update_rows(table, keys, grads, rows_kernel(kernel), step);
  }
  virtual void update_rows(TableId table, KeysView keys, std::span<const float> grads,
                           const RowsKernel& kernel, uint64_t step) = 0;

  // Sets rows with their slots, values[keys.size() x (dim + slot_floats)], whether they exist or not.
  virtual void restore(TableId table, KeysView keys, std::span<const float> values) = 0;

  // Calls visit(keys, values[n x (dim + slot_floats)]) once with up to `limit` rows from `cursor` on (0
  // first, in order of creation), and returns the next cursor, or kScanEnd after
  // the last row. Rows that are added meanwhile come last.
  using Visitor = std::function<void(KeysView keys, std::span<const float> values)>;
  virtual uint64_t scan(TableId table, uint64_t cursor, size_t limit, const Visitor& visit) = 0;
  static constexpr uint64_t kScanEnd = UINT64_MAX;

  virtual uint64_t rows(TableId table) const = 0;
  // Bytes held for rows, slots and index of all tables.
  virtual uint64_t resident_bytes() const = 0;
};

// The embedded default. Rows and slots are contiguous in slabs, with one index per table. `filler` makes
// pages ahead of their use (storage/memory/page_filler.h): stores of one process share one; without one, the
// store has its own.
class PageFiller;
std::unique_ptr<Store> make_memory_store(std::shared_ptr<PageFiller> filler = nullptr);

}  // namespace embers::storage
