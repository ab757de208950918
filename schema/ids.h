#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"

namespace embers {

// Keys of an embedding table are int64 (any value, never assumed zero-based) or byte strings (compared in
// full, never by hash alone).
enum class KeyKind : uint8_t { kInt64 = 0, kBytes = 1 };

std::string_view name(KeyKind kind);

// A view of a list of keys of one kind. Cheap to copy; valid as long as the list.
struct KeysView {
  KeyKind kind = KeyKind::kInt64;
  std::span<const int64_t> ints;   // kInt64: the keys
  std::span<const uint32_t> ends;  // kBytes: key i is bytes[ends[i-1], ends[i]), ends[-1] = 0
  std::string_view bytes;          // kBytes: all keys, one after another

  size_t size() const { return kind == KeyKind::kInt64 ? ints.size() : ends.size(); }
  bool empty() const { return size() == 0; }
  // The i-th key as bytes; only for kBytes.
  std::string_view bytes_at(size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return bytes.substr(begin, ends[i] - begin);
  }
};

// An owning list of keys of one kind. Invariant: only the members of `kind` are used.
class Keys {
 public:
  explicit Keys(KeyKind kind = KeyKind::kInt64) : kind_(kind) {}
  explicit Keys(std::vector<int64_t> ints) : kind_(KeyKind::kInt64), ints_(std::move(ints)) {}
  explicit Keys(const std::vector<std::string>& strings);
  // Copies the list that `view` shows.
  explicit Keys(KeysView view);

  KeyKind kind() const { return kind_; }
  size_t size() const { return kind_ == KeyKind::kInt64 ? ints_.size() : ends_.size(); }
  bool empty() const { return size() == 0; }
  void clear();
  void reserve(size_t keys, size_t bytes = 0);

  void push_back(int64_t key) { ints_.push_back(key); }  // only for kInt64
  void push_back(std::string_view key);                  // only for kBytes; kInvalid past 4 GiB in all
  // Appends the i-th key of `other`, which must be of the same kind.
  void push_back_from(KeysView other, size_t i);

  KeysView view() const { return {kind_, ints_, ends_, bytes_}; }
  operator KeysView() const { return view(); }  // NOLINT: a list converts to its view everywhere

  friend bool operator==(const Keys&, const Keys&) = default;

 private:
  KeyKind kind_;
  std::vector<int64_t> ints_;
  std::vector<uint32_t> ends_;
  std::string bytes_;
};

// The i-th key for people: the number, or the bytes with unprintable ones, tabs and backslashes escaped as
// \xHH, so that it fits in one field of one line.
std::string to_string(KeysView keys, size_t i);

// 64-bit hashes of keys, which must never change: bucket, initial values and checkpoints depend on them.
uint64_t hash_key(std::string_view key);
// XXH3's 64 bits of the key's eight bytes, little-endian, inlined: it is computed for every key of every pull
// and push.
inline uint64_t hash_key(int64_t key) {
  constexpr uint64_t kSecret = 0x1cad21f72c81017cULL ^ 0xdb979083e96dd4deULL;
  constexpr uint64_t kPrime = 0x9fb21c651e98df25ULL;
  uint64_t h = std::rotl(static_cast<uint64_t>(key), 32) ^ kSecret;
  h ^= std::rotl(h, 49) ^ std::rotl(h, 24);
  h *= kPrime;
  h ^= (h >> 35) + sizeof key;
  h *= kPrime;
  return h ^ (h >> 28);
}
inline uint64_t hash_key(KeysView keys, size_t i) {
  return keys.kind == KeyKind::kInt64 ? hash_key(keys.ints[i]) : hash_key(keys.bytes_at(i));
}
// Writes the hashes of all keys to hashes[keys.size()].
void hash_keys(KeysView keys, uint64_t* hashes);

// What a feature gives an embedding layer: a ragged list of ids per example, as compressed sparse rows.
//   example e holds keys [offsets[e], offsets[e+1]);  offsets.size() == examples + 1;  offsets[0] == 0
// `width` is M when every example holds exactly M ids (a dense N x M input), else 0. `weights`, where there
// are any, has one finite number for each id: the factor by which combiners multiply its row.
struct Ids {
  Keys keys;
  std::vector<int64_t> offsets{0};
  int64_t width = 0;
  std::vector<float> weights = {};  // empty: all 1

  int64_t examples() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

}  // namespace embers
