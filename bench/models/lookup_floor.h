#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/floats/float_buffer.h"
#include "bench/peers/lookup_peers.h"

namespace embers {

// The limit of embers bench lookup: the least that any lookup with combiner mean must do. Forward reads the
// row of each id, adds it up and writes each bag's mean. Backward, for each unique row, reads the gradients
// of the bags that have it, adds them up and writes the sum. Nothing is checked, and nothing is searched for
// or sorted: which bags have a row is known beforehand, and rows come in the order in which bags first have
// them, so that gradients are read nearly one after another. Compiled for each dim (16, 64, 128) and the
// instruction sets that ours is compiled for.
class LookupFloor final : public LookupPeer {
 public:
  struct Way {
    int ahead;          // ids between the prefetch of a row, or of a gradient, and its use
    bool second_level;  // that cache is what it is prefetched into, or the first
    bool streaming;     // gradients are written around the caches
    std::string name() const;
  };
  static std::vector<Way> ways();

  // The columns that it is given later, which must stay where they are. kInvalid for another dim.
  LookupFloor(std::span<const float> table, int64_t dim, const std::vector<LookupColumn>& columns);

  void set(Way way) { way_ = way; }
  void forward(const LookupColumn& column) override;
  void backward(std::span<const float> out_gradient) override;
  std::span<const float> output() const override { return out_.span(); }
  std::span<const int64_t> gradient_rows() const override { return plans_[column_].rows; }
  std::span<const float> gradient_values() const override { return gradient_.span(); }

 private:
  // The unique rows of a column: row u is in bags bag[begin[u], begin[u + 1]), as often as it is there.
  struct Plan {
    std::vector<int64_t> rows;
    std::vector<uint32_t> begin, bag;
    std::vector<float> scale;  // of each bag
  };
  static Plan plan_of(const LookupColumn& column);

  const std::span<const float> table_;
  const int64_t dim_;
  const LookupColumn* const columns_;
  std::vector<Plan> plans_;  // of each column
  Way way_ = ways().front();
  size_t column_ = 0;  // whose forward pass came last
  FloatBuffer out_, gradient_;
};

}  // namespace embers
