#include "schema/ids.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <limits>

#include "base/floats/instruction_sets.h"

namespace embers {

std::string_view name(KeyKind kind) { return kind == KeyKind::kInt64 ? "int64" : "bytes"; }

Keys::Keys(const std::vector<std::string>& strings) : kind_(KeyKind::kBytes) {
  for (const std::string& s : strings) push_back(s);
}

Keys::Keys(KeysView view)
    : kind_(view.kind),
      ints_(view.ints.begin(), view.ints.end()),
      ends_(view.ends.begin(), view.ends.end()),
      bytes_(view.bytes) {}

void Keys::clear() {
  ints_.clear();
  ends_.clear();
  bytes_.clear();
}

void Keys::reserve(size_t keys, size_t bytes) {
  if (kind_ == KeyKind::kInt64) {
    ints_.reserve(keys);
  } else {
    ends_.reserve(keys);
    bytes_.reserve(bytes);
  }
}

void Keys::push_back(std::string_view key) {
  if (key.size() > std::numeric_limits<uint32_t>::max() - bytes_.size())
    fail(ErrorCode::kInvalid, "a list of string keys holds more than 4 GiB: use a smaller batch_size");
  bytes_.append(key);
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
}

void Keys::push_back_from(KeysView other, size_t i) {
  if (kind_ == KeyKind::kInt64) {
    ints_.push_back(other.ints[i]);
  } else {
    push_back(other.bytes_at(i));
  }
}

std::string to_string(KeysView keys, size_t i) {
  if (keys.kind == KeyKind::kInt64) return std::to_string(keys.ints[i]);
  std::string out;
  for (const char c : keys.bytes_at(i)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f || u == '\\') {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  return out;
}

uint64_t hash_key(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

namespace {

EMBERS_INSTRUCTION_SETS void hash_ints(const int64_t* keys, size_t n, uint64_t* hashes) {
  for (size_t i = 0; i < n; ++i) hashes[i] = hash_key(keys[i]);
}

}  // namespace

void hash_keys(KeysView keys, uint64_t* hashes) {
  if (keys.kind == KeyKind::kInt64) return hash_ints(keys.ints.data(), keys.ints.size(), hashes);
  for (size_t i = 0; i < keys.size(); ++i) hashes[i] = hash_key(keys.bytes_at(i));
}

}  // namespace embers
