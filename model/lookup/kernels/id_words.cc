#include "model/lookup/kernels/id_words.h"

#include <algorithm>

#include "base/floats/instruction_sets.h"

namespace embers {
namespace {

// Ids whose words are made, and then counted while they are in the nearest cache.
constexpr size_t kTogether = 512;

// How many bags begin with each id, so that a loop over ids has no end of a bag in it, which cannot be
// guessed. The first bag is left out.
std::span<const uint32_t> count_begins(std::span<const int64_t> offset, size_t ids,
                                       Scratch<uint32_t>& memory) {
  const std::span<uint32_t> begins = memory.take(ids + 1);
  std::fill(begins.begin(), begins.end(), 0);
  for (size_t b = 1; b + 1 < offset.size(); ++b) ++begins[static_cast<size_t>(offset[b])];
  return begins;
}

// Fills `bags` with those of ids [first, first + bags.size()) and returns the last one; `before` is that of
// the id before.
int32_t find_bags(std::span<const uint32_t> begins, int64_t width, size_t first, int32_t before,
                  std::span<int32_t> bags) {
  if (!begins.empty()) {
    for (size_t i = 0; i < bags.size(); ++i) bags[i] = before += static_cast<int32_t>(begins[first + i]);
    return before;
  }
  const auto n = static_cast<int64_t>(first);
  auto bag = static_cast<int32_t>(n / width);
  for (int64_t left = width - n % width; int32_t & of_id : bags) {
    of_id = bag;
    const bool ends = --left == 0;
    bag += ends;
    left = ends ? width : left;
  }
  return bag;
}

template <class Row>
EMBERS_INLINE void make_words(std::span<const Row> row, WordLayout layout, uint64_t* words) {
  const unsigned shift = layout.shift();
  for (size_t i = 0; i < row.size(); ++i) words[i] = static_cast<uint64_t>(row[i]) << shift;
}
EMBERS_INSTRUCTION_SETS void words_of(std::span<const int64_t> row, WordLayout layout, uint64_t* words) {
  make_words(row, layout, words);
}
EMBERS_INSTRUCTION_SETS void words_of(std::span<const int32_t> row, WordLayout layout, uint64_t* words) {
  make_words(row, layout, words);
}

EMBERS_INSTRUCTION_SETS void add_bags(std::span<const int32_t> bags, uint64_t* words) {
  for (size_t i = 0; i < bags.size(); ++i) words[i] |= static_cast<uint32_t>(bags[i]);
}

EMBERS_INSTRUCTION_SETS void add_numbers(size_t first, size_t n, uint64_t* words) {
  for (size_t i = 0; i < n; ++i) words[i] |= first + i;
}

EMBERS_INSTRUCTION_SETS void add_clipped(const float* norm, size_t n, WordLayout layout, uint64_t* words) {
  const unsigned low = layout.low;
  for (size_t i = 0; i < n; ++i) words[i] |= static_cast<uint64_t>(norm[i] != 0) << low;
}

EMBERS_INSTRUCTION_SETS void find_shares(std::span<const int32_t> bags, const float* scale,
                                         const float* weight, IdShare* shares) {
  if (scale == nullptr)
    for (size_t i = 0; i < bags.size(); ++i) shares[i] = {bags[i], weight[i]};
  else
    for (size_t i = 0; i < bags.size(); ++i) shares[i] = {bags[i], scale[bags[i]] * weight[i]};
}

template <unsigned kDigits>
EMBERS_INLINE void count(std::span<const uint64_t> words, const RadixSort sort) {
  for (const uint64_t word : words) sort.count<kDigits>(word);
}
EMBERS_INSTRUCTION_SETS void count_words(std::span<const uint64_t> words, const RadixSort& sort) {
  sort.digits() == 2 ? count<2>(words, sort) : count<0>(words, sort);  // two, as a rule
}

template <class Row>
void pack(const RaggedRows<Row>& ids, WordLayout layout, const RadixSort& sort, std::span<uint64_t> words,
          IdShare* shares, Scratch<uint32_t>& memory) {
  std::span<const uint32_t> begins;
  if (!ids.offset.empty()) begins = count_begins(ids.offset, ids.row.size(), memory);
  int32_t room[kTogether], before = 0;
  for (size_t first = 0; first < ids.row.size(); first += kTogether) {
    const size_t n = std::min(kTogether, ids.row.size() - first);
    const std::span bags(room, n);
    uint64_t* const to = words.data() + first;
    before = find_bags(begins, ids.width, first, before, bags);
    words_of(ids.row.subspan(first, n), layout, to);
    if (ids.norm != nullptr) add_clipped(ids.norm + first, n, layout, to);
    if (ids.weight == nullptr) {
      add_bags(bags, to);
    } else {
      add_numbers(first, n, to);
      find_shares(bags, ids.scale, ids.weight + first, shares + first);
    }
    count_words({to, n}, sort);
  }
}

}  // namespace

void pack_ids(const RaggedRows<int64_t>& ids, WordLayout layout, const RadixSort& sort,
              std::span<uint64_t> words, IdShare* shares, Scratch<uint32_t>& begins) {
  pack(ids, layout, sort, words, shares, begins);
}

void pack_ids(const RaggedRows<int32_t>& ids, WordLayout layout, const RadixSort& sort,
              std::span<uint64_t> words, IdShare* shares, Scratch<uint32_t>& begins) {
  pack(ids, layout, sort, words, shares, begins);
}

}  // namespace embers
