#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/floats/float_buffer.h"
#include "bench/peers/lookup_peers.h"

namespace embers {

// The limit of embers bench lookup: the least that any lookup with combiner mean must do. Forward reads the
// row of each id, adds it up and writes each bag's mean. Backward, for each unique row, reads the gradients
// of the bags that have it, adds them up and writes the sum. Nothing is checked, and nothing is searched for
// or sorted: which bags have a row is known beforehand, and rows come in the order in which bags first have
// them, so that gradients are read nearly one after another. With max_norm, there are weights, too: forward
// finds the norm of each row that it reads; backward reads those rows again that are clipped, since their
// gradient depends on them. Which ones those are, and how long, is known beforehand, and of 32 rows that
// follow one another they come first, so that no branch is guessed wrong. Compiled for each dim (16, 64, 128)
// and the instruction sets that ours is compiled for.
class LookupFloor final : public LookupPeer {
 public:
  struct Way {
    int ahead;          // ids between the prefetch of a row, or of a gradient, and its use
    bool second_level;  // that cache is what it is prefetched into, or the first
    bool streaming;     // gradients are written around the caches
    // Norms are found row by row, or of some dozens of rows, which are then read again: rows are asked for
    // while norms are found, or while rows are added up.
    enum class Norms : uint8_t { kOne, kTogether, kTogetherAskedWithSums } norms = Norms::kOne;
    bool asked_together = false;  // clipped rows of 32 unique ones, or each while another is worked on
    bool ascending = false;       // backward goes through rows as the table has them
    std::string name() const;
  };
  static std::vector<Way> ways(bool with_norms);

  // The columns that it is given later, which must stay where they are. kInvalid for another dim.
  LookupFloor(std::span<const float> table, int64_t dim, const std::vector<LookupColumn>& columns,
              std::optional<float> max_norm = {});

  void set(Way way) { way_ = way; }
  void forward(const LookupColumn& column) override;
  void backward(std::span<const float> out_gradient) override;
  std::span<const float> output() const override { return out_.span(); }
  std::span<const int64_t> gradient_rows() const override { return plan().rows; }
  std::span<const float> gradient_values() const override { return gradient_.span(); }

 private:
  // The unique rows of a column: row u is in bags bag[begin[u], begin[u + 1]), as often as it is there.
  struct Plan {
    std::vector<int64_t> rows;
    std::vector<uint32_t> begin, bag;
    std::vector<float> share;  // of the gradient of bag[i]: 1 over the bag's size, or over its sum of weights
    std::vector<float> scale;  // of each bag
    std::vector<int64_t> clipped;      // the rows that are clipped, in the same order,
    std::vector<float> norms;          // how long they are,
    std::vector<uint32_t> clipped_of;  // and how many those are of each 32 rows
  };
  Plan plan_of(const LookupColumn& column, bool ascending) const;
  const Plan& plan() const { return (way_.ascending ? ascending_ : plans_)[column_]; }
  float norm_of(int64_t row) const;

  const std::span<const float> table_;
  const int64_t dim_;
  const LookupColumn* const columns_;
  const std::optional<float> max_norm_;
  std::vector<Plan> plans_, ascending_;  // of each column; with norms also by row
  Way way_ = ways(false).front();
  size_t column_ = 0;  // whose forward pass came last
  FloatBuffer out_, gradient_;
};

}  // namespace embers
