#pragma once

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
  // Notes the place of each key, unless there are too many to be a minibatch's. `places` gets other contents,
  // so that nothing is copied or allocated.
  void note(std::span<const int64_t> keys, std::vector<float*>& places);
  // The places of exactly these keys, or none if they were not noted lately. They are forgotten: valid until
  // the next note().
  std::span<float* const> take(std::span<const int64_t> keys);
  void forget();
  uint64_t resident_bytes() const;

 private:
  static constexpr size_t kLists = 16;                  // of workers, and of what each has under way
  static constexpr size_t kMostKeys = size_t{1} << 16;  // of a list

  struct List {
    std::vector<int64_t> keys;  // none: free
    std::vector<float*> places;
    uint64_t number = 0;
  };
  std::array<List, kLists> lists_;
  uint64_t noted_ = 0;
};

}  // namespace embers::storage
