#include "storage/memory_table.h"

#include <algorithm>
#include <array>
#include <bit>

#include "storage/copy_floats.h"
#include "storage/store_checks.h"

namespace embers::storage {
namespace {

constexpr size_t kBlock = 8;  // keys
constexpr size_t kRowsAhead = 16;

// Keys on their way through MemoryTable::stream.
struct Block {
  std::array<uint64_t, kBlock> hash, word;
  std::array<const RowBucket*, kBlock> home;
  std::array<uint32_t, kBlock> row;
  std::array<uint8_t, kBlock>
      which;  // the first `elsewhere` of them: keys that are not in their home's bucket
  size_t elsewhere;
};

}  // namespace

MemoryTable::MemoryTable(const TableSpec& spec, std::span<const float> slot_init)
    : name_(spec.name),
      kind_(spec.key_kind),
      dim_(spec.dim),
      format_(spec),
      width_(spec.dim + slot_init.size()),
      stride_(format_.floats() + slot_init.size()),
      slot_init_(slot_init.begin(), slot_init.end()),
      zero_slots_(std::all_of(slot_init.begin(), slot_init.end(),
                              [](float x) { return std::bit_cast<uint32_t>(x) == 0; })),
      index_(spec.key_kind),
      slabs_(stride_) {}

// Block by block, each stage in a loop of its own, so that the processor overlaps the keys of a block.
template <class Use>
void MemoryTable::stream(KeysView keys, size_t floats, const Use& use) const {
  const bool ints = kind_ == KeyKind::kInt64;
  std::array<Block, 4> ring;
  const size_t n = keys.size(), blocks = (n + kBlock - 1) / kBlock;
  const auto size = [&](size_t block) { return std::min(kBlock, n - block * kBlock); };
  const auto prefetch = [&](uint32_t row) {
    ints ? prefetch_row(row, floats) : key_bytes_.prefetch_place(row);
  };
  for (size_t step = 0; step < blocks + 3; ++step) {
    if (const size_t b = step; b < blocks) {
      Block& block = ring[b % 4];
      for (size_t i = 0; i < size(b); ++i) block.hash[i] = hash_key(keys, b * kBlock + i);
      for (size_t i = 0; i < size(b); ++i) block.home[i] = index_.prefetch_home(block.hash[i]);
      for (size_t i = 0; i < size(b); ++i) block.word[i] = word_of(block.hash[i], keys, b * kBlock + i);
    }
    if (const size_t b = step - 1; b < blocks) {
      Block& block = ring[b % 4];
      RowIndex::find_at_home(block.home.data(), block.word.data(), size(b), block.row.data());
      block.elsewhere = 0;
      for (size_t i = 0; i < size(b); ++i) {
        // Without a branch: which keys are elsewhere cannot be predicted.
        block.which[block.elsewhere] = static_cast<uint8_t>(i);
        block.elsewhere += block.row[i] == RowIndex::kElsewhere;
        if (block.row[i] < RowIndex::kElsewhere) [[likely]]
          prefetch(block.row[i]);
      }
      for (size_t k = 0; k < block.elsewhere; ++k) index_.prefetch_elsewhere(block.home[block.which[k]]);
    }
    if (const size_t b = step - 2; b < blocks) {
      Block& block = ring[b % 4];
      for (size_t k = 0; k < block.elsewhere; ++k) {
        const size_t i = block.which[k];
        block.row[i] = index_.find_elsewhere(block.home[i], block.word[i]);
        if (block.row[i] != RowIndex::kNone) [[likely]]
          prefetch(block.row[i]);
      }
      for (size_t i = 0; !ints && i < size(b); ++i)
        if (const uint32_t row = block.row[i]; row != RowIndex::kNone) {
          key_bytes_.prefetch(row);
          prefetch_row(row, floats);
        }
    }
    if (const size_t b = step - 3; b < blocks)
      for (size_t i = 0; i < size(b); ++i) {
        const uint32_t row = ring[b % 4].row[i];
        const size_t at = b * kBlock + i;
        const bool other = !ints && row != RowIndex::kNone && key_bytes_.at(row) != keys.bytes_at(at);
        use(at, other ? find(ring[b % 4].hash[i], keys, at) : row);
      }
  }
}

size_t MemoryTable::gather(KeysView keys, std::span<float> out, std::span<uint8_t> found) {
  check_kind(name_, kind_, keys);
  check_size(name_, "room for rows", out.size(), keys.size(), dim_);
  check_size(name_, "found flags", found.size(), keys.size(), 1);
  index_.settle(keys.size() / 4);
  size_t count = 0;
  const auto gather = [&](const auto& read) {
    stream(keys, format_.floats(), [&](size_t i, uint32_t row) {
      found[i] = row != RowIndex::kNone;
      if (!found[i]) return;
      read(slabs_.row(row), &out[i * dim_]);
      ++count;
    });
  };
  if (format_.is_float32())
    gather([this](const float* row, float* to) { copy_floats(to, row, dim_); });
  else
    gather([this](const float* row, float* to) { format_.read(row, to); });
  return count;
}

size_t MemoryTable::add_if_absent(KeysView keys, std::span<const float> values,
                                  std::span<const uint8_t> found) {
  check_kind(name_, kind_, keys);
  check_size(name_, "initial values", values.size(), keys.size(), dim_);
  if (!found.empty()) check_size(name_, "found flags", found.size(), keys.size(), 1);
  const uint64_t before = rows();
  std::array<uint64_t, 2 * kBlock> hashes;  // of this block and the next
  const auto prepare = [&](size_t begin) {
    for (size_t i = begin; i < std::min(begin + kBlock, keys.size()); ++i)
      index_.prefetch(hashes[i % hashes.size()] = hash_key(keys, i));
  };
  prepare(0);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i % kBlock == 0) prepare(i + kBlock);
    if (!found.empty() && found[i]) continue;
    const auto [row, created] = find_or_create(hashes[i % hashes.size()], keys, i);
    if (created == Created::kNo) continue;
    float* const floats = slabs_.row(row);
    prefetch_new_row(floats);
    format_.write(floats, &values[i * dim_]);
    if (created == Created::kAgain || !zero_slots_)
      copy_floats(floats + format_.floats(), slot_init_.data(), slot_init_.size());
  }
  return rows() - before;
}

void MemoryTable::update(KeysView keys, std::span<const float> grads, const UpdateKernel& kernel,
                         uint64_t step) {
  check_kind(name_, kind_, keys);
  check_size(name_, "gradients", grads.size(), keys.size(), dim_);
  index_.settle(keys.size() / 4);
  locate_all(keys);
  if (!format_.is_float32()) return update_halves(keys, grads, kernel, step);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kRowsAhead < keys.size()) prefetch_row(rows_[i + kRowsAhead], stride_);
    float* row = slabs_.row(rows_[i]);
    kernel({row, dim_}, {row + dim_, stride_ - dim_}, grads.subspan(i * dim_, dim_));
  }
}

void MemoryTable::update_halves(KeysView keys, std::span<const float> grads, const UpdateKernel& kernel,
                                uint64_t step) {
  row_.resize(dim_);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kRowsAhead < keys.size()) prefetch_row(rows_[i + kRowsAhead], stride_);
    float* const halves = slabs_.row(rows_[i]);
    format_.read(halves, row_.data());
    kernel(row_, {halves + format_.floats(), slot_init_.size()}, grads.subspan(i * dim_, dim_));
    format_.write_back(halves, row_.data(), hash_key(keys, i), step);
  }
}

void MemoryTable::restore(KeysView keys, std::span<const float> values) {
  check_kind(name_, kind_, keys);
  check_size(name_, "rows with slots", values.size(), keys.size(), width_);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kRowsAhead < keys.size()) index_.prefetch(hash_key(keys, i + kRowsAhead));
    float* const row = slabs_.row(find_or_create(hash_key(keys, i), keys, i).row);
    format_.write(row, &values[i * width_]);
    copy_floats(row + format_.floats(), values.data() + i * width_ + dim_, width_ - dim_);
  }
}

size_t MemoryTable::remove(KeysView keys) {
  check_kind(name_, kind_, keys);
  words_ = {};
  size_t count = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t hash = hash_key(keys, i);
    const uint32_t row = find(hash, keys, i);
    if (row == RowIndex::kNone) continue;
    index_.erase(hash, row);
    if (used_.empty()) used_.assign(slabs_.rows(), true);
    used_[row] = false;
    free_.push_back(row);
    ++count;
  }
  return count;
}

// Rows as they lie, from one slab and between two free ones.
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
  words_ = {};
  return Store::kScanEnd;
}

// The keys of rows [begin, begin + n), fewer if those hold more than the 4 GiB that a view can show.
KeysView MemoryTable::keys_from(uint32_t begin, size_t n) {
  if (kind_ == KeyKind::kInt64) {
    if (words_.size() != slabs_.rows()) list_words();
    return {kind_, std::span(words_).subspan(begin, n), {}, {}};
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

// The index leads from keys to rows: the way back is made when it is needed.
void MemoryTable::list_words() {
  words_.resize(slabs_.rows());
  index_.visit([&](uint64_t word, uint32_t row) { words_[row] = static_cast<int64_t>(word); });
}

uint64_t MemoryTable::resident_bytes() const {
  return index_.resident_bytes() + slabs_.resident_bytes() + key_bytes_.resident_bytes() +
         (rows_.capacity() + free_.capacity()) * sizeof(uint32_t) + words_.capacity() * sizeof(int64_t) +
         (shown_.capacity() + row_.capacity()) * sizeof(float) + used_.capacity() / 8;
}

void MemoryTable::locate_all(KeysView keys) {
  rows_.resize(keys.size());
  size_t missing = keys.size();
  stream(keys, kLine, [&](size_t i, uint32_t row) {
    rows_[i] = row;
    if (row == RowIndex::kNone) missing = std::min(missing, i);
  });
  if (missing < keys.size()) fail_missing_key(name_, keys, missing);
}

uint32_t MemoryTable::find(uint64_t hash, KeysView keys, size_t i) const {
  if (kind_ == KeyKind::kInt64) return index_.find(hash, static_cast<uint64_t>(keys.ints[i]));
  return index_.find(hash, hash, [&](uint32_t row) { return key_bytes_.at(row) == keys.bytes_at(i); });
}

MemoryTable::Created MemoryTable::find_or_create(uint64_t hash, KeysView keys, size_t i) {
  const bool again = !free_.empty();
  const uint32_t next = again ? free_.back() : slabs_.rows();
  if (next == RowIndex::kElsewhere) {
    const uint32_t row = find(hash, keys, i);
    if (row != RowIndex::kNone) return {row, Created::kNo};
    fail(ErrorCode::kInvalid, "table '{}' is full: one shard holds 2^32 - 2 rows of a table, use more shards",
         name_);
  }
  slabs_.reserve();
  const uint32_t row = kind_ == KeyKind::kInt64
                           ? index_.find_or_insert(hash, static_cast<uint64_t>(keys.ints[i]), next)
                           : index_.find_or_insert(hash, hash, next, [&](uint32_t older) {
                               return key_bytes_.at(older) == keys.bytes_at(i);
                             });
  if (row != next) return {row, Created::kNo};
  if (kind_ == KeyKind::kBytes) key_bytes_.set(row, keys.bytes_at(i));
  if (again) {
    free_.pop_back();
    used_[row] = true;
    words_ = {};
    return {row, Created::kAgain};
  }
  slabs_.append();
  if (!used_.empty()) used_.push_back(true);
  return {row, Created::kNew};
}

}  // namespace embers::storage
