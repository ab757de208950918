#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/floats/float_buffer.h"
#include "schema/ids.h"

namespace embers {

// Rows of one embedding table that were pulled lately, so that hot ones need not be pulled for every
// minibatch. Bounded twice: it holds at most `rows` rows, and gives out only those read at most `staleness`
// steps ago, steps being the worker's minibatches. Keys are spread over sets of kWays entries by their hash;
// in a full set, an entry that is too old to be given out makes room; if there is none, the next one that the
// set's CLOCK hand finds unused since it last passed. Arithmetic over spans.
//
// *Thread safety*: none. *Invariants*: a key is in its set at most once; memory does not grow after
// construction, apart from the bytes of byte keys.
class RowCache {
 public:
  static constexpr size_t kWays = 8;

  // `rows` is rounded up to whole sets.
  RowCache(KeyKind kind, uint32_t dim, size_t rows, uint64_t staleness);

  // What find() found. Versions are those at which owners gave the rows out.
  struct Found {
    std::vector<uint32_t> missing;  // places of the keys that are to be pulled
    size_t hits = 0;
  };
  // Copies each row that may be used at `step` to its place in out[keys.size() x dim]; oldest[owner] becomes
  // the least of itself and the versions of the rows taken.
  Found find(KeysView keys, uint64_t step, std::span<float> out, std::span<uint64_t> oldest);

  // Rows that `owner` gave out at `version`, asked for at `step`. A row that is already there from a later
  // step stays. rows.size() == keys.size() x dim.
  void put(KeysView keys, uint64_t step, size_t owner, uint64_t version, std::span<const float> rows);

  size_t capacity() const { return entries_.size(); }
  size_t size() const { return size_; }

 private:
  static constexpr uint64_t kNever = UINT64_MAX;
  struct Entry {
    uint64_t word = 0;       // the key, or its bytes' hash
    uint64_t step = kNever;  // of the pull; kNever: free
    uint64_t version = 0;
    uint32_t owner = 0;
    bool used = false;  // since the hand came by
  };
  bool is_fresh(const Entry& entry, uint64_t step) const { return step <= entry.step + staleness_; }
  uint64_t word(KeysView keys, size_t i) const;
  size_t set_of(KeysView keys, size_t i) const { return hash_key(keys, i) % hands_.size() * kWays; }
  // Its place, or kNone.
  size_t place_of(size_t set, uint64_t word, KeysView keys, size_t i) const;
  size_t victim(size_t set, uint64_t step);
  float* row(size_t place) { return rows_.data() + place * dim_; }

  static constexpr size_t kNone = SIZE_MAX;
  const KeyKind kind_;
  const uint32_t dim_;
  const uint64_t staleness_;
  size_t size_ = 0;
  std::vector<uint8_t> hands_;      // of each set
  std::vector<Entry> entries_;      // kWays of each set
  std::vector<std::string> bytes_;  // kBytes: the keys, beside the entries
  FloatBuffer rows_;                // beside the entries; pages nobody wrote to take no memory
};

}  // namespace embers
