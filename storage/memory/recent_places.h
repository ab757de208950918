#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace embers::storage {

// Where the rows of the last pulls are: the push of a minibatch has the keys of its pull, and need not search
// for them again. Only lists of int64 keys all of which have a row; rows never move, but whoever removes one
// must forget() all.
//
// *Thread safety*: none.
class RecentPlaces {
 public:
  // Notes the place of each key, unless there are too many to be a minibatch's. `places` is swapped rather
  // than copied: it has other contents then.
  void note(std::span<const int64_t> keys, std::vector<float*>& places);
  // The places of exactly these keys, or none if they were not noted lately. They are forgotten: valid until
  // the next note().
  std::span<float* const> take(std::span<const int64_t> keys);
  void forget();
  uint64_t resident_bytes() const;

 private:
  static constexpr size_t kLists = 16;                  // of workers, and of what each has under way
  static constexpr size_t kMostKeys = size_t{1} << 17;  // of all lists: 2 MiB with their places

  struct List {
    std::vector<int64_t> keys;  // none: free
    std::vector<float*> places;
    uint64_t number = 0;
    size_t room() const { return std::max(keys.capacity(), places.capacity()); }
  };
  static bool older(const List& a, const List& b) { return a.number < b.number; }
  void keep_small(const List& newest);

  std::array<List, kLists> lists_;
  uint64_t noted_ = 0;
};

}  // namespace embers::storage
