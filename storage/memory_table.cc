#include "storage/memory_table.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "storage/store_checks.h"

namespace embers::storage {
namespace {

constexpr size_t kRowsAhead = 16;
constexpr size_t kKeysAhead = 8;
constexpr size_t kLine = 64 / sizeof(float);
constexpr size_t kMostLines = 16;  // beyond this the processor's own prefetcher has caught on

void copy_floats(float* to, const float* from, size_t n) { std::memcpy(to, from, n * sizeof(float)); }

}  // namespace

MemoryTable::MemoryTable(const TableSpec& spec, std::span<const float> slot_init)
    : name_(spec.name),
      dim_(spec.dim),
      stride_(spec.dim + slot_init.size()),
      slot_init_(slot_init.begin(), slot_init.end()),
      keys_(spec.key_kind),
      slabs_(stride_) {}

size_t MemoryTable::gather(KeysView keys, std::span<float> out, std::span<uint8_t> found) {
  check_size(name_, "room for rows", out.size(), keys.size(), dim_);
  check_size(name_, "found flags", found.size(), keys.size(), 1);
  locate(keys);
  size_t count = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    prefetch_row(i + kRowsAhead, dim_);
    found[i] = rows_[i] != RowIndex::kNone;
    if (!found[i]) continue;
    copy_floats(&out[i * dim_], slabs_.row(rows_[i]), dim_);
    ++count;
  }
  return count;
}

size_t MemoryTable::add_if_absent(KeysView keys, std::span<const float> values,
                                  std::span<const uint8_t> found) {
  check_kind(name_, keys_.kind(), keys);
  check_size(name_, "initial values", values.size(), keys.size(), dim_);
  if (!found.empty()) check_size(name_, "found flags", found.size(), keys.size(), 1);
  const uint32_t before = rows();
  for (size_t i = 0; i < keys.size(); ++i) {
    prefetch_cell(keys, i + kKeysAhead);
    if (!found.empty() && found[i]) continue;
    const uint64_t hash = hash_key(keys, i);
    if (find(hash, keys, i) != RowIndex::kNone) continue;
    float* row = create(hash, keys, i);
    copy_floats(row, &values[i * dim_], dim_);
    std::copy(slot_init_.begin(), slot_init_.end(), row + dim_);
  }
  return rows() - before;
}

void MemoryTable::update(KeysView keys, std::span<const float> grads, const UpdateKernel& kernel) {
  check_size(name_, "gradients", grads.size(), keys.size(), dim_);
  locate(keys);
  check_all_located(keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    prefetch_row(i + kRowsAhead, stride_);
    float* row = slabs_.row(rows_[i]);
    kernel({row, dim_}, {row + dim_, stride_ - dim_}, grads.subspan(i * dim_, dim_));
  }
}

void MemoryTable::restore(KeysView keys, std::span<const float> values) {
  check_kind(name_, keys_.kind(), keys);
  check_size(name_, "rows with slots", values.size(), keys.size(), stride_);
  for (size_t i = 0; i < keys.size(); ++i) {
    prefetch_cell(keys, i + kKeysAhead);
    const uint64_t hash = hash_key(keys, i);
    const uint32_t number = find(hash, keys, i);
    float* row = number == RowIndex::kNone ? create(hash, keys, i) : slabs_.row(number);
    copy_floats(row, &values[i * stride_], stride_);
  }
}

uint64_t MemoryTable::scan(uint64_t cursor, size_t limit, const Store::Visitor& visit) {
  if (limit == 0)
    fail(ErrorCode::kInvalid, "table '{}': a scan must ask for at least one row at a time", name_);
  if (cursor >= rows()) return Store::kScanEnd;
  const auto begin = static_cast<uint32_t>(cursor);
  const size_t most = std::min<size_t>(rows() - begin, slabs_.contiguous(begin));
  const KeysView keys = keys_.view(begin, std::min(limit, most));
  visit(keys, {slabs_.row(begin), keys.size() * stride_});
  const uint64_t next = cursor + keys.size();
  return next < rows() ? next : Store::kScanEnd;
}

uint64_t MemoryTable::resident_bytes() const {
  return keys_.resident_bytes() + index_.resident_bytes() + slabs_.resident_bytes() +
         rows_.capacity() * sizeof(uint32_t);
}

void MemoryTable::locate(KeysView keys) {
  check_kind(name_, keys_.kind(), keys);
  rows_.resize(keys.size());
  for (size_t begin = 0; begin < keys.size(); begin += kBlock)
    locate_block(keys, begin, std::min(kBlock, keys.size() - begin));
}

void MemoryTable::locate_block(KeysView keys, size_t begin, size_t n) {
  std::array<uint64_t, kBlock> hashes;
  for (size_t i = 0; i < n; ++i) {
    hashes[i] = hash_key(keys, begin + i);
    index_.prefetch(hashes[i]);
  }
  uint32_t* candidates = &rows_[begin];
  for (size_t i = 0; i < n; ++i) {
    candidates[i] = index_.candidate(hashes[i]);
    if (candidates[i] != RowIndex::kNone) keys_.prefetch(candidates[i]);
  }
  for (size_t i = 0; i < n; ++i)
    if (candidates[i] != RowIndex::kNone) keys_.prefetch_bytes(candidates[i]);
  for (size_t i = 0; i < n; ++i) rows_[begin + i] = find(hashes[i], keys, begin + i);
}

uint32_t MemoryTable::find(uint64_t hash, KeysView keys, size_t i) const {
  return index_.find(hash, [&](uint32_t row) { return keys_.equals(row, keys, i); });
}

void MemoryTable::check_all_located(KeysView keys) const {
  const auto missing = std::find(rows_.begin(), rows_.end(), RowIndex::kNone);
  if (missing != rows_.end()) fail_missing_key(name_, keys, static_cast<size_t>(missing - rows_.begin()));
}

float* MemoryTable::create(uint64_t hash, KeysView keys, size_t i) {
  if (rows() == RowIndex::kNone - 1)
    fail(ErrorCode::kInvalid, "table '{}' is full: one shard holds 2^32 - 2 rows of a table, use more shards",
         name_);
  float* row = slabs_.append();
  keys_.push_back_from(keys, i);
  index_.append(hash, [this](uint32_t older) { return keys_.hash(older); });
  return row;
}

void MemoryTable::prefetch_cell(KeysView keys, size_t i) const {
  if (i < keys.size()) index_.prefetch(hash_key(keys, i));  // hashing twice is cheaper than the miss
}

void MemoryTable::prefetch_row(size_t i, size_t floats) const {
  if (i >= rows_.size() || rows_[i] == RowIndex::kNone) return;
  const float* row = slabs_.row(rows_[i]);
  for (size_t f = 0; f < std::min(floats, kMostLines * kLine); f += kLine) __builtin_prefetch(row + f);
}

}  // namespace embers::storage
