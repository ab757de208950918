#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/engine/table.h"
#include "storage/memory/pages.h"

// The limits of embers bench engine: the least that any store must do for a minibatch. A pull reads one
// random cache line a key, of an index, and the row; a push reads and writes the row and its slots, which its
// pull has found. Where all these are is known beforehand; nothing is searched.
namespace embers {

// A key's row, and its line of an index.
struct Place {
  float* row;
  const std::byte* line;
};

// How floors prefetch: how many rows ahead of their use, and into the second-level cache or the first. The
// best one counts.
struct Ahead {
  size_t rows;
  bool second_level;
};
std::vector<Ahead> ways_ahead();  // 2 to 128 rows, into either
std::string name(const Ahead& ahead);

// The places of minibatches, whose lines are random ones of an array as large as an index.
class Places {
 public:
  Places(Engine& engine, Minibatches batches);

  size_t size() const { return places_.size(); }
  std::span<const Place> operator[](size_t minibatch) const { return places_[minibatch]; }

 private:
  storage::Pages lines_;
  std::vector<std::vector<Place>> places_;
};

// Copy the rows to out[places.size() x dim]. Dims 4, 16, 64 and 128. Returns a sum that no compiler can leave
// out.
unsigned pull_floor(std::span<const Place> places, size_t dim, Ahead ahead, float* out);
// How a row's lines are prefetched by a push: all at once; or one after another, between the lines of the row
// that is worked on, each of which is stored at once, or all of them at the end.
enum class PushWay { kAtOnce, kLineByLine, kStoredAtEnd };
inline constexpr PushWay kPushWays[] = {PushWay::kAtOnce, PushWay::kLineByLine, PushWay::kStoredAtEnd};
std::string name(PushWay way);  // what follows that of Ahead

// Read and write row and both slots, read grads[places.size() x dim], without an index. The same dims.
unsigned push_floor(std::span<const Place> places, size_t dim, Ahead ahead, PushWay way, const float* grads);

}  // namespace embers
