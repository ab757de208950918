#pragma once

#include "cuda/embers_cuda.h"
#include "cuda/lanes.h"

// What all kernels know of a model and a minibatch.
namespace embers::cuda {

constexpr int kMostDim = 1024;

// Rows of all tables are numbered by *keys*: table after table, each followed by one key of no row, which
// stands for its ids that do not count. So sorting by key sorts by table, too.
struct Table {
  embers_cuda_table is;
  uint32_t row_stride, slot_stride;
  uint32_t first_key;
  int32_t first_column;
  int32_t columns;
  int32_t defaults_before;  // columns with a default_id, of the tables before
  int32_t defaults;         // of its own
  int32_t lanes;            // of a group that works on one of its rows
};

template <int kDim, int kWide>
EMBERS_DEVICE int lanes_of(const Table& table) {
  return kDim != 0 ? lanes_for(kDim, kWide) : table.lanes;
}

struct Column {
  embers_cuda_column is;
  int32_t defaults_before;  // columns with a default_id before this one
};

struct Model {
  const Table* tables;
  const Column* columns;
  int32_t table_count;
  int32_t column_count;
};

// Sorted by key, *items* bring together what belongs to one row: table after table an item for each id, and
// behind those one for each bag of its columns with a default_id. The high half is the key. The low half says
// whose gradient counts: the number of a bag (column x bags + bag), or with weights the number of the item,
// whose Share says more. kNothing: an id that does not count.
using Item = unsigned long long;
constexpr uint32_t kNothing = 0xffffffffu;
EMBERS_BOTH Item item_of(uint32_t key, uint32_t source) { return static_cast<Item>(key) << 32 | source; }
EMBERS_BOTH uint32_t key_of(Item item) { return static_cast<uint32_t>(item >> 32); }
EMBERS_BOTH uint32_t source_of(Item item) { return static_cast<uint32_t>(item); }

// The same in 32 bits, for plain models with a column for each table, where a number of a row and one of a
// bag fit: the row within its table (the number of rows: none), and in the low `bag_bits` the bag within its
// column.
using ShortItem = uint32_t;

struct Share {
  int32_t bag;
  float weight;
};

// What a forward pass leaves for its backward pass.
struct State {
  void* items;  // Item, or ShortItem where there are bag_bits; null: no backward pass
  int bag_bits;
  float* scales;  // of each bag: what its sum was multiplied by
  Share* shares;  // of each item; null without weights
};

struct Problems {
  unsigned long long bad_ids;
  unsigned long long first;  // position + 1 (0: a default_id) << 32 | bag; the least of all
  unsigned long long bad_gradients;
};

struct Reports {
  Problems* problems;
  volatile int* any;  // on the host
};

EMBERS_DEVICE void report_bad_id(const Reports& reports, int position, int bag) {
  atomic_add(&reports.problems->bad_ids, 1ull);
  atomic_min(&reports.problems->first,
             static_cast<unsigned long long>(position + 1) << 32 | static_cast<unsigned>(bag));
  *reports.any = 1;
}

EMBERS_DEVICE void report_bad_gradient(const Reports& reports) {
  atomic_add(&reports.problems->bad_gradients, 1ull);
  *reports.any = 1;
}

// The items of a table: [begin, end).
struct Region {
  int begin, end;
};
EMBERS_DEVICE Region region_of(const embers_cuda_batch& batch, const Table& table) {
  const int64_t* const offsets = batch.offsets + table.first_column * batch.bags;
  const int64_t begin = offsets[0] + table.defaults_before * batch.bags;
  return {static_cast<int>(begin), static_cast<int>(begin + offsets[table.columns * batch.bags] - offsets[0] +
                                                    table.defaults * batch.bags)};
}

// The row that has an id, over all partitions; -1: none. As LocalTable::find() (model/lookup/local_table.h).
EMBERS_DEVICE int64_t row_of(const embers_cuda_table& table, int64_t id) {
  if (id < 0) return -1;
  if (table.partitions <= 1) return id < table.count ? id : -1;
  const int64_t count = table.partitions;
  int64_t partition = 0, local = 0;
  if (table.strategy == EMBERS_CUDA_MOD) {
    partition = id % count;
    local = id / count;
  } else if (table.counted) {
    while (partition + 1 < count && id >= table.first[partition + 1]) ++partition;
    local = id - table.first[partition];
  } else {
    if (id >= table.count) return -1;
    const int64_t each = table.count / count, larger = table.count % count, in_larger = larger * (each + 1);
    const int64_t begin = id < in_larger ? 0 : in_larger, size = id < in_larger ? each + 1 : each;
    partition = (id < in_larger ? 0 : larger) + (id - begin) / size;
    local = (id - begin) % size;
  }
  const int64_t row = table.first[partition] + local;
  return row < table.first[partition + 1] ? row : -1;
}

}  // namespace embers::cuda
