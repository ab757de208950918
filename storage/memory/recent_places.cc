#include "storage/memory/recent_places.h"

#include <algorithm>

namespace embers::storage {

void RecentPlaces::note(std::span<const int64_t> keys, std::vector<float*>& places) {
  if (keys.empty() || keys.size() > kMostKeys) return;
  List& list = *std::min_element(lists_.begin(), lists_.end(),
                                 [](const List& a, const List& b) { return a.number < b.number; });
  list.keys.assign(keys.begin(), keys.end());
  list.places.swap(places);
  list.number = ++noted_;
}

std::span<float* const> RecentPlaces::take(std::span<const int64_t> keys) {
  for (List& list : lists_) {
    if (keys.empty() || !std::equal(keys.begin(), keys.end(), list.keys.begin(), list.keys.end())) continue;
    list.keys.clear();
    list.number = 0;
    return list.places;
  }
  return {};
}

void RecentPlaces::forget() {
  for (List& list : lists_) {
    list.keys.clear();
    list.number = 0;
  }
}

uint64_t RecentPlaces::resident_bytes() const {
  uint64_t bytes = 0;
  for (const List& list : lists_)
    bytes += list.keys.capacity() * sizeof(int64_t) + list.places.capacity() * sizeof(float*);
  return bytes;
}

}  // namespace embers::storage
