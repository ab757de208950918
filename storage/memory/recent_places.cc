#include "storage/memory/recent_places.h"

namespace embers::storage {

void RecentPlaces::note(std::span<const int64_t> keys, std::vector<float*>& places) {
  if (keys.empty() || keys.size() > kMostKeys) return;
  List& list = *std::min_element(lists_.begin(), lists_.end(), older);
  list.keys.assign(keys.begin(), keys.end());
  list.places.swap(places);
  list.number = ++noted_;
  keep_small(list);
}

// Free lists have memory, too, and go first.
void RecentPlaces::keep_small(const List& newest) {
  for (;;) {
    size_t room = 0;
    List* first = nullptr;
    for (List& list : lists_) {
      room += list.room();
      if (&list != &newest && list.room() > 0 && (first == nullptr || older(list, *first))) first = &list;
    }
    if (room <= kMostKeys || first == nullptr) return;
    *first = {};
  }
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

void RecentPlaces::forget() { lists_ = {}; }

uint64_t RecentPlaces::resident_bytes() const {
  uint64_t bytes = 0;
  for (const List& list : lists_)
    bytes += list.keys.capacity() * sizeof(int64_t) + list.places.capacity() * sizeof(float*);
  return bytes;
}

}  // namespace embers::storage
