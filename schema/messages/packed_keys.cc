#include "schema/messages/packed_keys.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace embers {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

// How many of `keys` can be read and written as whole words without leaving keys x bytes_per_key bytes.
size_t whole_words(size_t keys, size_t bytes_per_key) {
  const size_t bytes = keys * bytes_per_key;
  return bytes < kWord ? 0 : (bytes - kWord) / bytes_per_key + 1;
}

}  // namespace

KeyPacking KeyPacking::of(std::span<const int64_t> keys) {
  if (keys.empty()) return {};
  const auto [least, greatest] = std::ranges::minmax(keys);
  const uint64_t excess = static_cast<uint64_t>(greatest) - static_cast<uint64_t>(least);
  const auto bytes = static_cast<uint32_t>((std::bit_width(excess) + 7) / 8);
  return {least, std::max(1U, bytes)};
}

void pack(const KeyPacking& packing, std::span<const int64_t> keys, std::byte* out) {
  const size_t bytes = packing.bytes_per_key, whole = whole_words(keys.size(), bytes);
  const auto excess = [&](size_t i) {
    return static_cast<uint64_t>(keys[i]) - static_cast<uint64_t>(packing.least);
  };
  size_t i = 0;
  for (; i < whole; ++i) {  // the next key overwrites what is above this one
    const uint64_t word = excess(i);
    std::memcpy(out + i * bytes, &word, kWord);
  }
  for (; i < keys.size(); ++i) {
    const uint64_t word = excess(i);
    std::memcpy(out + i * bytes, &word, bytes);
  }
}

void unpack(const KeyPacking& packing, const std::byte* packed, std::span<int64_t> out) {
  const size_t bytes = packing.bytes_per_key, whole = whole_words(out.size(), bytes);
  const uint64_t mask = UINT64_MAX >> (8 * (kWord - bytes));
  const auto key = [&](uint64_t excess) {
    return static_cast<int64_t>(static_cast<uint64_t>(packing.least) + excess);
  };
  size_t i = 0;
  for (; i < whole; ++i) {
    uint64_t word;
    std::memcpy(&word, packed + i * bytes, kWord);
    out[i] = key(word & mask);
  }
  for (; i < out.size(); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, packed + i * bytes, bytes);
    out[i] = key(word);
  }
}

}  // namespace embers
