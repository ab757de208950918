#include "storage/memory/memory_table.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/floats/copy_floats.h"
#include "storage/memory/key_of_hash.h"
#include "storage/rows/store_checks.h"

namespace embers::storage {
namespace {

constexpr size_t kKeysAhead = 24;                 // how far ahead removals prefetch buckets
constexpr size_t kBlock = RowIndex::kMostAtOnce;  // keys that are looked at together

}  // namespace

MemoryTable::MemoryTable(const TableSpec& spec, std::span<const float> slot_init, PageFiller* filler)
    : name_(spec.name),
      kind_(spec.key_kind),
      dim_(spec.dim),
      format_(spec),
      width_(spec.dim + slot_init.size()),
      stride_(format_.floats() + slot_init.size()),
      slot_init_(slot_init.begin(), slot_init.end()),
      zero_slots_(std::all_of(slot_init.begin(), slot_init.end(),
                              [](float x) { return std::bit_cast<uint32_t>(x) == 0; })),
      index_(filler),
      slabs_(stride_, filler) {}

size_t MemoryTable::gather(KeysView keys, std::span<float> out, std::span<uint8_t> found, ReadBy reader) {
  check_kind(name_, kind_, keys);
  check_size(name_, "room for rows", out.size(), keys.size(), dim_);
  check_size(name_, "found flags", found.size(), keys.size(), 1);
  find_all(keys);
  size_t count = 0;
  if (format_.is_float32()) {
    count = copy_rows(places_, dim_, out.data(), found.data(),
                      reader == ReadBy::kOtherThread ? store_choice_.get() : nullptr);
    if (count == keys.size()) note_places(keys);
    return count;
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    prefetch_one_ahead(i, format_.floats());
    count += found[i] = places_[i] != nullptr;
    if (found[i]) format_.read(places_[i], &out[i * dim_]);
  }
  return count;
}

template <auto matches>
EMBERS_INLINE MemoryTable::Created MemoryTable::find_or_create(uint64_t hash, const KeysView& keys,
                                                               size_t i) {
  const bool again = !free_.empty();
  const uint32_t next = again ? free_.back() : slabs_.rows();
  if (next == RowIndex::kNone) {
    const uint32_t row = find(hash, keys, i);
    if (row != RowIndex::kNone) return {row, Created::kNo};
    fail(ErrorCode::kInvalid,
         "table '{}' is full: a shard holds at most 2^32 - 1 rows of a table; use more shards", name_);
  }
  slabs_.reserve();
  const uint32_t row = kind_ == KeyKind::kInt64
                           ? index_.find_or_add<matches>(hash, next, [](uint32_t) { return true; })
                           : index_.find_or_add<matches>(hash, next, [&](uint32_t older) {
                               return key_bytes_.at(older) == keys.bytes_at(i);
                             });
  if (row != next) return {row, Created::kNo};
  try {
    if (kind_ == KeyKind::kBytes) key_bytes_.set(row, keys.bytes_at(i));
    if (!again && !used_.empty()) used_.push_back(true);
  } catch (...) {  // no memory: the key has no row, so it must not be in the index
    index_.erase(hash, row);
    throw;
  }
  if (again) {
    free_.pop_back();
    used_[row] = true;
    ints_ = {};
    return {row, Created::kAgain};
  }
  slabs_.append();
  return {row, Created::kNew};
}

template <auto matches, class Write>
EMBERS_INLINE void MemoryTable::find_or_create_all(KeysView keys, const Write& write) {
  const size_t n = wanted_.size();
  const auto prefetch_block = [&](size_t begin) __attribute__((always_inline)) {
    for (size_t t = begin; t < std::min(n, begin + kBlock); ++t) index_.prefetch(hashes_[wanted_[t]]);
  };
  prefetch_block(0);
  size_t not_asked = free_.size();  // of the places of removed rows, which are taken from the last one on
  for (size_t begin = 0; begin < n; begin += kBlock) {
    const std::span block(wanted_.data() + begin, std::min(n - begin, kBlock));
    prefetch_block(begin + kBlock);
    for (const uint32_t i : block) index_.prefetch_node(hashes_[i]);
    while (not_asked > 0 && free_.size() - not_asked < block.size())
      prefetch_row(slabs_.row(free_[--not_asked]), stride_);
    index_.make_room(block.size());
    for (const uint32_t i : block) write(i, find_or_create<matches>(hashes_[i], keys, i));
  }
}

template <auto matches>
EMBERS_INLINE void MemoryTable::add_absent_by(KeysView keys, std::span<const float> values,
                                              std::span<const uint8_t> found, std::span<float*> places) {
  wanted_.clear();
  for (uint32_t i = 0; i < keys.size(); ++i)
    if (found.empty() || !found[i]) wanted_.push_back(i);
  find_or_create_all<matches>(keys, [&](uint32_t i, Created made) {
    float* const floats = slabs_.row(made.row);
    if (!places.empty()) places[i] = floats;
    if (made.created == Created::kNo) return;
    format_.write(floats, &values[i * dim_]);
    if (made.created == Created::kAgain || !zero_slots_)
      copy_floats(floats + format_.floats(), slot_init_.data(), slot_init_.size());
  });
}

#if defined(EMBERS_AVX512)
EMBERS_AVX512 void MemoryTable::add_absent_avx512(KeysView keys, std::span<const float> values,
                                                  std::span<const uint8_t> found, std::span<float*> places) {
  add_absent_by<&RowBucket::matches_avx512>(keys, values, found, places);
}
#endif

void MemoryTable::add_absent(KeysView keys, std::span<const float> values, std::span<const uint8_t> found,
                             std::span<float*> places) {
#if defined(EMBERS_AVX512)
  if (has_avx512()) return add_absent_avx512(keys, values, found, places);
#endif
  add_absent_by<&RowBucket::matches>(keys, values, found, places);
}

size_t MemoryTable::add_if_absent(KeysView keys, std::span<const float> values,
                                  std::span<const uint8_t> found) {
  check_kind(name_, kind_, keys);
  check_size(name_, "initial values", values.size(), keys.size(), dim_);
  if (!found.empty()) check_size(name_, "found flags", found.size(), keys.size(), 1);
  const uint64_t before = rows();
  hash_all(keys);
  add_absent(keys, values, found, {});
  return rows() - before;
}

// What gather() has found is not searched for again.
size_t MemoryTable::gather_or_create(KeysView keys, const Store::FirstValues& first_values,
                                     std::span<float> out, std::span<uint8_t> found, ReadBy reader) {
  if (gather(keys, out, found, reader) == keys.size()) return keys.size();
  first_values(out, found);
  add_absent(keys, out, found, places_);
  // As they are kept: rounded, or those of the key's first place among `keys`.
  for (size_t i = 0; i < keys.size(); ++i)
    if (!found[i]) format_.read(places_[i], &out[i * dim_]);
  std::fill(found.begin(), found.end(), uint8_t{1});
  note_places(keys);
  return keys.size();
}

void MemoryTable::update_rows(KeysView keys, std::span<const float> grads, const RowsKernel& kernel,
                              uint64_t step) {
  check_kind(name_, kind_, keys);
  check_size(name_, "gradients", grads.size(), keys.size(), dim_);
  if (kind_ == KeyKind::kInt64 && format_.is_float32())
    if (const auto places = recent_.take(keys.ints); !places.empty())
      return kernel({places, dim_, slot_init_.size(), grads});
  find_all(keys);
  for (size_t i = 0; i < keys.size(); ++i)
    if (places_[i] == nullptr) fail_missing_key(name_, keys, i);
  if (format_.is_float32())
    kernel({places_, dim_, slot_init_.size(), grads});
  else
    update_halves(grads, kernel, step);
}

void MemoryTable::update_halves(std::span<const float> grads, const RowsKernel& kernel, uint64_t step) {
  row_.resize(width_);
  float* const row = row_.data();
  for (size_t i = 0; i < places_.size(); ++i) {
    prefetch_one_ahead(i, stride_);
    float* const halves = places_[i];
    float* const slots = halves + format_.floats();
    format_.read(halves, row);
    copy_floats(row + dim_, slots, slot_init_.size());
    kernel({{&row, 1}, dim_, slot_init_.size(), grads.subspan(i * dim_, dim_)});
    format_.write_back(halves, row, hashes_[i], step);
    copy_floats(slots, row + dim_, slot_init_.size());
  }
}

void MemoryTable::restore(KeysView keys, std::span<const float> values) {
  check_kind(name_, kind_, keys);
  check_size(name_, "rows with slots", values.size(), keys.size(), width_);
  hash_all(keys);
  wanted_.resize(keys.size());
  std::iota(wanted_.begin(), wanted_.end(), 0);
  find_or_create_all<&RowBucket::matches>(keys, [&](uint32_t i, Created made) {
    float* const row = slabs_.row(made.row);
    format_.write(row, &values[i * width_]);
    copy_floats(row + format_.floats(), values.data() + i * width_ + dim_, width_ - dim_);
  });
}

size_t MemoryTable::remove(KeysView keys) {
  check_kind(name_, kind_, keys);
  ints_ = {};
  recent_.forget();
  hash_all(keys);
  if (const size_t most = free_.size() + keys.size(); most > free_.capacity())
    free_.reserve(std::max(most, 2 * free_.capacity()));
  if (used_.empty()) used_.assign(slabs_.rows(), true);
  size_t count = 0;  // from here on nothing throws
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kKeysAhead < keys.size()) index_.prefetch(hashes_[i + kKeysAhead]);
    const uint32_t row = find(hashes_[i], keys, i);
    if (row == RowIndex::kNone) continue;
    index_.erase(hashes_[i], row);
    used_[row] = false;
    free_.push_back(row);
    ++count;
  }
  return count;
}

// Shows rows in place: a run of rows in one slab without free ones in between.
uint64_t MemoryTable::scan(uint64_t cursor, size_t limit, const Store::Visitor& visit) {
  if (limit == 0)
    fail(ErrorCode::kInvalid, "table '{}': a scan must ask for at least one row at a time", name_);
  const uint32_t rows = slabs_.rows();
  while (cursor < rows && is_free(static_cast<uint32_t>(cursor))) ++cursor;
  if (cursor >= rows) return end_scan();
  const auto begin = static_cast<uint32_t>(cursor);
  const auto most = static_cast<uint32_t>(std::min<size_t>({limit, rows - begin, slabs_.contiguous(begin)}));
  uint32_t n = 1;
  while (n < most && !is_free(begin + n)) ++n;
  const KeysView keys = keys_from(begin, n);
  visit(keys, values_from(begin, keys.size()));
  const uint64_t next = cursor + keys.size();
  return next < rows ? next : end_scan();
}

uint64_t MemoryTable::end_scan() {
  ints_ = {};
  return Store::kScanEnd;
}

// The keys of rows [begin, begin + n), fewer if those hold more than the 4 GiB that a view can show.
KeysView MemoryTable::keys_from(uint32_t begin, size_t n) {
  if (kind_ == KeyKind::kInt64) {
    if (ints_.size() != slabs_.rows()) list_keys();
    return {kind_, std::span(ints_).subspan(begin, n), {}, {}};
  }
  ends_.clear();
  bytes_.clear();
  for (uint32_t row = begin; row < begin + n; ++row) {
    const std::string_view key = key_bytes_.at(row);
    if (!ends_.empty() && bytes_.size() + key.size() > UINT32_MAX) break;
    bytes_.append(key);
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  return {kind_, {}, ends_, bytes_};
}

std::span<const float> MemoryTable::values_from(uint32_t begin, size_t n) {
  if (format_.is_float32()) return {slabs_.row(begin), n * stride_};
  shown_.resize(n * width_);
  for (size_t i = 0; i < n; ++i) {
    const float* const row = slabs_.row(begin) + i * stride_;
    format_.read(row, &shown_[i * width_]);
    copy_floats(shown_.data() + i * width_ + dim_, row + format_.floats(), width_ - dim_);
  }
  return shown_;
}

// The index leads from keys to rows; the reverse is built when it is needed.
void MemoryTable::list_keys() {
  ints_.resize(slabs_.rows());
  index_.visit([&](uint64_t hash, uint32_t row) { ints_[row] = key_of_hash(hash); });
}

uint64_t MemoryTable::resident_bytes() const {
  return index_.resident_bytes() + slabs_.resident_bytes() + key_bytes_.resident_bytes() +
         recent_.resident_bytes() + places_.capacity() * sizeof(float*) +
         (rows_.capacity() + free_.capacity() + wanted_.capacity()) * sizeof(uint32_t) +
         hashes_.capacity() * sizeof(uint64_t) + ints_.capacity() * sizeof(int64_t) +
         (shown_.capacity() + row_.capacity()) * sizeof(float) + used_.capacity() / 8;
}

void MemoryTable::find_all(KeysView keys) {
  const size_t n = keys.size();
  index_.settle((n + 15) / 16);
  places_.resize(n);
  hash_all(keys);
  if (kind_ == KeyKind::kInt64) return index_.find_all(hashes_, slabs_, places_);
  rows_.resize(n);
  index_.find_all(hashes_, rows_);
  compare_keys(keys);
  for (size_t i = 0; i < n; ++i) places_[i] = rows_[i] == RowIndex::kNone ? nullptr : slabs_.row(rows_[i]);
}

void MemoryTable::compare_keys(KeysView keys) {
  const size_t ahead = std::min(kLinesAhead, keys.size());
  for (size_t turn = 0; turn < keys.size() + 2 * ahead; ++turn) {
    const auto is_row = [&](size_t i) { return i < keys.size() && rows_[i] != RowIndex::kNone; };
    if (is_row(turn)) key_bytes_.prefetch_place(rows_[turn]);
    if (const size_t i = turn - ahead; is_row(i)) key_bytes_.prefetch(rows_[i]);
    if (const size_t i = turn - 2 * ahead; is_row(i) && key_bytes_.at(rows_[i]) != keys.bytes_at(i))
      rows_[i] = find(hashes_[i], keys, i);
  }
}

uint32_t MemoryTable::find(uint64_t hash, const KeysView& keys, size_t i) const {
  if (kind_ == KeyKind::kInt64) return index_.find(hash);
  return index_.find(hash, [&](uint32_t row) { return key_bytes_.at(row) == keys.bytes_at(i); });
}

}  // namespace embers::storage
