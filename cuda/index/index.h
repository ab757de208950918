#pragma once

#include "cuda/lanes.h"
#include "cuda/row.h"

// A hash index in device memory: int64 keys to row numbers, by linear probing. Two launches find or create:
// the first puts in keys that are new and numbers them, the second tells each key's row and gives new rows
// their first values.
namespace embers::cuda {

using Word = unsigned long long;
constexpr Word kEmpty =
    1ull << 63;  // no key; the key that looks like it has a place of its own, behind the others

struct IndexView {
  Word* keys;        // of each place
  int32_t* rows;     // of each place
  Word places;       // a power of two; arrays have one more
  int64_t* key_of;   // of each row
  Word* count;       // of rows
  int64_t capacity;  // of rows
};

// XXH3's 64 bits of the key's eight bytes, as hash_key() (schema/ids.h): it also decides a row's first
// values.
EMBERS_BOTH Word rotate(Word x, int by) { return x << by | x >> (64 - by); }
EMBERS_BOTH Word hash_of(int64_t key) {
  constexpr Word kPrime = 0x9fb21c651e98df25ull;
  Word h = rotate(static_cast<Word>(key), 32) ^ (0x1cad21f72c81017cull ^ 0xdb979083e96dd4deull);
  h ^= rotate(h, 49) ^ rotate(h, 24);
  h *= kPrime;
  h ^= (h >> 35) + 8;
  h *= kPrime;
  return h ^ (h >> 28);
}

// The place of a key; where there is none, `places + 1`.
EMBERS_DEVICE Word place_of(const IndexView& index, int64_t key) {
  const Word wanted = static_cast<Word>(key);
  if (wanted == kEmpty) return index.keys[index.places] == kEmpty ? index.places + 1 : index.places;
  for (Word at = hash_of(key) & (index.places - 1);; at = (at + 1) & (index.places - 1)) {
    const Word there = index.keys[at];
    if (there == wanted) return at;
    if (there == kEmpty) return index.places + 1;
  }
}

struct InsertTask {
  IndexView index;
  const int64_t* keys;
  int64_t count;
  bool skip_negative;
};

EMBERS_DEVICE void number(const IndexView& index, Word at, int64_t key) {
  const Word row = atomic_add(index.count, Word{1});
  index.rows[at] = static_cast<int32_t>(row);
  if (static_cast<int64_t>(row) < index.capacity) index.key_of[row] = key;
}

// `index` has room for all keys. Rows beyond its capacity are numbered, but have no memory yet: the host sees
// to that.
EMBERS_KERNEL void insert(InsertTask task) {
  const IndexView& index = task.index;
  const int64_t all = int64_t{threads()} * blocks();
  for (int64_t i = int64_t{threads()} * block_index() + thread_index(); i < task.count; i += all) {
    const int64_t key = task.keys[i];
    if (task.skip_negative && key < 0) continue;
    const Word wanted = static_cast<Word>(key);
    if (wanted == kEmpty) {
      if (atomic_cas(&index.keys[index.places], kEmpty, 1) == kEmpty) number(index, index.places, key);
      continue;
    }
    for (Word at = hash_of(key) & (index.places - 1);; at = (at + 1) & (index.places - 1)) {
      Word there = index.keys[at];
      if (there == kEmpty) {
        there = atomic_cas(&index.keys[at], kEmpty, wanted);
        if (there == kEmpty) number(index, at, key);
      }
      if (there == kEmpty || there == wanted) break;
    }
  }
}

// First values: uniform over [low, high), by Philox with the key's hash as counter, as storage/initializers;
// `low` alone where both are the same.
struct FirstValues {
  double low, high;
  float last;  // the largest number below high
  uint32_t stream[2];
  float slots[2];
};

struct IndexRows {
  void* rows;
  float* slots[2];
  int32_t dim, slot_dim, slot_count, number_type_is_half;
};

// Philox4x32-10, as base/philox.h; the word of a column.
EMBERS_BOTH uint32_t random_word(Word hash, uint32_t column, const uint32_t (&stream)[2]) {
  uint32_t c0 = static_cast<uint32_t>(hash), c1 = static_cast<uint32_t>(hash >> 32), c2 = column / 4, c3 = 0;
  uint32_t k0 = stream[0], k1 = stream[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c0, b = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return column % 4 == 0 ? c0 : column % 4 == 1 ? c1 : column % 4 == 2 ? c2 : c3;
}

EMBERS_BOTH float first_value(const FirstValues& first, Word hash, uint32_t column) {
  if (first.low == first.high) return static_cast<float>(first.low);
  const double unit = (random_word(hash, column, first.stream) >> 8) * (1.0 / 16777216);
  const float value = static_cast<float>(first.low + (first.high - first.low) * unit);
  return value < first.last ? value : first.last;
}

struct FindTask {
  IndexView index;
  const int64_t* keys;
  int64_t count;
  bool skip_negative;
  int64_t* found;  // the row of each key, or -1
};

EMBERS_KERNEL void find(FindTask task) {
  const int64_t all = int64_t{threads()} * blocks();
  for (int64_t i = int64_t{threads()} * block_index() + thread_index(); i < task.count; i += all) {
    const int64_t key = task.keys[i];
    Word at = task.index.places + 1;
    if (!(task.skip_negative && key < 0)) at = place_of(task.index, key);
    const int64_t row = at > task.index.places ? -1 : task.index.rows[at];
    task.found[i] = row < task.index.capacity ? row : -1;  // numbered, but without memory
  }
}

struct FillTask {
  IndexView index;
  IndexRows rows;
  FirstValues first;
  const Word* filled;  // rows that have their first values
};

// First values of the rows behind the first *filled: a warp takes a row.
EMBERS_KERNEL void fill(FillTask task) {
  const int64_t warp = int64_t{threads() / kWarp} * block_index() + thread_index() / kWarp;
  const int64_t warps = int64_t{threads() / kWarp} * blocks();
  const auto end = static_cast<int64_t>(*task.index.count);
  for (int64_t row = static_cast<int64_t>(*task.filled) + warp; row < end; row += warps) {
    const Word hash = hash_of(task.index.key_of[row]);
    for (int c = thread_index() % kWarp; c < task.rows.dim; c += kWarp) {
      const float value = first_value(task.first, hash, static_cast<uint32_t>(c));
      if (task.rows.number_type_is_half) {
        static_cast<Half*>(task.rows.rows)[row * task.rows.dim + c] = to_half(value);
      } else {
        static_cast<float*>(task.rows.rows)[row * task.rows.dim + c] = value;
      }
    }
    for (int s = 0; s < task.rows.slot_count; ++s)
      for (int c = thread_index() % kWarp; c < task.rows.slot_dim; c += kWarp)
        task.rows.slots[s][row * task.rows.slot_dim + c] = task.first.slots[s];
  }
}

struct RehashTask {
  IndexView from, to;
};

// Puts all keys in a larger index. `to` is empty.
EMBERS_KERNEL void rehash(RehashTask task) {
  const int64_t all = int64_t{threads()} * blocks();
  const Word end = task.from.places + 1;
  for (Word i = static_cast<Word>(int64_t{threads()} * block_index() + thread_index()); i < end;
       i += static_cast<Word>(all)) {
    const Word key = task.from.keys[i];
    if (key == kEmpty) continue;
    if (i == task.from.places) {
      task.to.keys[task.to.places] = key;
      task.to.rows[task.to.places] = task.from.rows[i];
      continue;
    }
    Word at = hash_of(static_cast<int64_t>(key)) & (task.to.places - 1);
    while (atomic_cas(&task.to.keys[at], kEmpty, key) != kEmpty) at = (at + 1) & (task.to.places - 1);
    task.to.rows[at] = task.from.rows[i];
  }
}

struct ClearTask {
  Word* keys;
  Word count;
};
EMBERS_KERNEL void clear_keys(ClearTask task) {
  const Word all = static_cast<Word>(int64_t{threads()} * blocks());
  for (Word i = static_cast<Word>(int64_t{threads()} * block_index() + thread_index()); i < task.count;
       i += all)
    task.keys[i] = kEmpty;
}

struct NumberTask {
  IndexView index;
};
// Writes key_of anew, where rows were numbered beyond its capacity.
EMBERS_KERNEL void name_rows(NumberTask task) {
  const int64_t all = int64_t{threads()} * blocks();
  const Word end = task.index.places + 1;
  for (Word i = static_cast<Word>(int64_t{threads()} * block_index() + thread_index()); i < end;
       i += static_cast<Word>(all)) {
    const Word key = task.index.keys[i];
    if (key != kEmpty)
      task.index.key_of[task.index.rows[i]] = static_cast<int64_t>(i == task.index.places ? kEmpty : key);
  }
}

struct CopyTask {
  IndexRows rows;
  const int64_t* numbers;  // of rows; null: `first` and those that follow
  int64_t first, count;
  float* values;    // count x dim
  float* slots[2];  // count x slot_dim each, or null
  bool into;        // the table; else out of it
};

// Rows into the table, or out of it: a warp takes a row. Numbers below 0 are passed over.
EMBERS_KERNEL void copy_rows(CopyTask task) {
  const IndexRows& rows = task.rows;
  const int64_t warp = int64_t{threads() / kWarp} * block_index() + thread_index() / kWarp;
  const int64_t warps = int64_t{threads() / kWarp} * blocks();
  for (int64_t i = warp; i < task.count; i += warps) {
    const int64_t row = task.numbers == nullptr ? task.first + i : task.numbers[i];
    if (row < 0) continue;
    for (int c = thread_index() % kWarp; c < rows.dim; c += kWarp) {
      float* const value = task.values + i * rows.dim + c;
      if (rows.number_type_is_half) {
        Half* const at = static_cast<Half*>(rows.rows) + row * rows.dim + c;
        if (task.into) {
          *at = to_half(*value);
        } else {
          *value = to_float(*at);
        }
      } else {
        float* const at = static_cast<float*>(rows.rows) + row * rows.dim + c;
        (task.into ? *at : *value) = task.into ? *value : *at;
      }
    }
    for (int s = 0; s < rows.slot_count; ++s) {
      if (task.slots[s] == nullptr) continue;
      for (int c = thread_index() % kWarp; c < rows.slot_dim; c += kWarp) {
        float* const value = task.slots[s] + i * rows.slot_dim + c;
        float* const at = rows.slots[s] + row * rows.slot_dim + c;
        (task.into ? *at : *value) = task.into ? *value : *at;
      }
    }
  }
}

}  // namespace embers::cuda
