#include "storage/checkpoint/rows_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "storage/rows/key_slice.h"

namespace embers::storage {
namespace {

// file    := header block* end
// header  := magic:8 kind:u32 floats:u32                         kind: 0 int64, 1 bytes; floats of a row
// block   := rows:u32 key_bytes:u32 payload checksum:u64         rows > 0
// end     := 0:u32    0:u32                 checksum:u64
// payload := key:i64 x rows, value:f32 x rows x floats                    kind int64: key_bytes = 0
//          | end:u32 x rows, value:f32 x rows x floats, bytes:key_bytes   kind bytes: key i is
//                                                                         bytes[end[i-1], end[i])
// All little-endian. A checksum is the XXH3 of its block's bytes before it, seeded with the previous checksum
// (the first with the XXH3 of the header). So blocks can be trusted as they are read, a block that is lost,
// repeated or moved is noticed, and the end's checksum, which the manifest repeats, covers the whole file.
static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[] = "EMBROWS1";
constexpr size_t kHeaderBytes = 16;
constexpr size_t kHeadBytes = 8;  // rows and key_bytes of a block
constexpr size_t kChecksumBytes = 8;
constexpr size_t kBlockBytes = size_t{4} << 20;  // roughly; a reader must hold one block at a time

void append(std::string& to, const void* from, size_t bytes) {
  to.append(static_cast<const char*>(from), bytes);
}

std::string header_of(RowShape shape) {
  std::string header(kMagic, 8);
  const uint32_t fields[] = {static_cast<uint32_t>(shape.kind), shape.floats};
  append(header, fields, sizeof fields);
  return header;
}

size_t fixed_key_bytes(KeyKind kind) { return kind == KeyKind::kInt64 ? sizeof(int64_t) : sizeof(uint32_t); }

// Bytes of a row's key and values in a payload, its key's own bytes not counted.
size_t row_bytes(RowShape shape) { return fixed_key_bytes(shape.kind) + shape.floats * sizeof(float); }

}  // namespace

RowsWriter::RowsWriter(std::unique_ptr<File> file, RowShape shape) : file_(std::move(file)), shape_(shape) {
  const std::string header = header_of(shape);
  file_->write(header);
  seal_ = {0, header.size(), XXH3_64bits(header.data(), header.size())};
}

void RowsWriter::add(KeysView keys, std::span<const float> values) {
  const size_t rows_a_block = std::max<size_t>(1, kBlockBytes / row_bytes(shape_));
  std::vector<uint32_t> ends;
  for (size_t begin = 0; begin < keys.size(); begin += rows_a_block) {
    const size_t n = std::min(rows_a_block, keys.size() - begin);
    write_block(key_slice(keys, begin, n, ends), values.subspan(begin * shape_.floats, n * shape_.floats));
  }
}

void RowsWriter::write_block(KeysView keys, std::span<const float> values) {
  const uint32_t head[] = {static_cast<uint32_t>(keys.size()), static_cast<uint32_t>(keys.bytes.size())};
  block_.clear();
  append(block_, head, sizeof head);
  append(block_, keys.ints.data(), keys.ints.size_bytes());
  append(block_, keys.ends.data(), keys.ends.size_bytes());
  append(block_, values.data(), values.size_bytes());
  append(block_, keys.bytes.data(), keys.bytes.size());
  write_chained(block_);
  seal_.rows += keys.size();
}

void RowsWriter::write_chained(std::string& bytes) {
  seal_.checksum = XXH3_64bits_withSeed(bytes.data(), bytes.size(), seal_.checksum);
  append(bytes, &seal_.checksum, kChecksumBytes);
  file_->write(bytes);
  seal_.bytes += bytes.size();
}

RowsSeal RowsWriter::finish() {
  std::string end(kHeadBytes, '\0');
  write_chained(end);
  file_->sync();
  return seal_;
}

// One block while it is read. It consists of floats only for their alignment: `memory` holds the bytes as
// they are in the file.
struct RowsReader::Block {
  uint64_t offset = kHeaderBytes;  // of the next block in the file
  uint64_t checksum = 0;           // of the last one
  uint32_t rows = 0, key_bytes = 0;
  FloatBuffer memory;

  char* bytes() { return reinterpret_cast<char*>(memory.data()); }
  const char* payload() const { return reinterpret_cast<const char*>(memory.data()) + kHeadBytes; }
  void reserve(size_t bytes) {
    if (const size_t floats = (bytes + 3) / sizeof(float); memory.size() < floats)
      memory = FloatBuffer(floats);
  }
};

RowsReader::RowsReader(std::unique_ptr<const File> file, RowShape shape, RowsSeal seal)
    : file_(std::move(file)), shape_(shape), seal_(seal) {
  if (file_->size() != seal_.bytes)
    fail_corrupt(fmt::format("it has {} bytes, but the manifest says {}", file_->size(), seal_.bytes));
  check_header();
}

uint64_t RowsReader::check_header() const {
  char header[kHeaderBytes] = {};
  file_->read_at(0, header, kHeaderBytes);
  if (std::string_view(header, kHeaderBytes) != header_of(shape_))
    fail_corrupt("its header is not that of this table's rows");
  return XXH3_64bits(header, kHeaderBytes);
}

void RowsReader::read(size_t limit, const Store::Visitor& visit) const {
  if (limit == 0) fail(ErrorCode::kInvalid, "'{}' must be read at least one row at a time", file_->path());
  Block block;
  block.checksum = check_header();
  uint64_t rows = 0;
  std::vector<uint32_t> ends;
  for (; next(block); rows += block.rows) {
    const KeysView keys = keys_of(block);
    const auto* values =
        reinterpret_cast<const float*>(block.payload() + fixed_key_bytes(shape_.kind) * block.rows);
    for (size_t begin = 0; begin < block.rows; begin += limit) {
      const size_t n = std::min<size_t>(limit, block.rows - begin);
      visit(key_slice(keys, begin, n, ends), {values + begin * shape_.floats, n * shape_.floats});
    }
  }
  if (rows != seal_.rows)
    fail_corrupt(fmt::format("it has {} rows, but the manifest says {}", rows, seal_.rows));
}

// Loads and checks the next block; false at the end.
bool RowsReader::next(Block& block) const {
  uint32_t head[2];
  const uint64_t left = seal_.bytes - block.offset;
  if (left < kHeadBytes + kChecksumBytes || file_->read_at(block.offset, head, kHeadBytes) != kHeadBytes)
    fail_corrupt(fmt::format("it is cut off at byte {}", block.offset));
  block.rows = head[0];
  block.key_bytes = head[1];
  const uint64_t room = left - kHeadBytes - kChecksumBytes;
  if (block.rows > room / row_bytes(shape_) || block.key_bytes > room - block.rows * row_bytes(shape_))
    fail_corrupt(fmt::format("the block at byte {} has an impossible size", block.offset));
  load(block, block.rows * row_bytes(shape_) + block.key_bytes);
  if (block.rows == 0) check_end(block);
  return block.rows != 0;
}

void RowsReader::load(Block& block, uint64_t payload) const {
  const size_t checked = kHeadBytes + payload;
  block.reserve(checked + kChecksumBytes);
  if (file_->read_at(block.offset, block.bytes(), checked + kChecksumBytes) != checked + kChecksumBytes)
    fail_corrupt(fmt::format("it is cut off after byte {}", block.offset));
  uint64_t written;
  std::memcpy(&written, block.bytes() + checked, kChecksumBytes);
  block.checksum = XXH3_64bits_withSeed(block.bytes(), checked, block.checksum);
  if (written != block.checksum)
    fail_corrupt(fmt::format("the checksum of the block at byte {} is wrong", block.offset));
  block.offset += checked + kChecksumBytes;
}

void RowsReader::check_end(const Block& block) const {
  if (block.offset != seal_.bytes) fail_corrupt(fmt::format("it ends early, at byte {}", block.offset));
  if (block.checksum != seal_.checksum) fail_corrupt("its checksum differs from that in the manifest");
}

KeysView RowsReader::keys_of(const Block& block) const {
  if (shape_.kind == KeyKind::kInt64)
    return {shape_.kind, {reinterpret_cast<const int64_t*>(block.payload()), block.rows}, {}, {}};
  const std::span ends{reinterpret_cast<const uint32_t*>(block.payload()), block.rows};
  if (!std::is_sorted(ends.begin(), ends.end()) || ends.back() != block.key_bytes)
    fail_corrupt(fmt::format("the keys of the block before byte {} have impossible lengths", block.offset));
  return {shape_.kind, {}, ends, {block.payload() + row_bytes(shape_) * block.rows, block.key_bytes}};
}

void RowsReader::fail_corrupt(const std::string& why) const {
  fail(ErrorCode::kCorrupt, "'{}' cannot be read back: {}; use another checkpoint", file_->path(), why);
}

}  // namespace embers::storage
