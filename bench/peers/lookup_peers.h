#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/lookup/combiner.h"

namespace embers {

// What other code does with the same lookups, for `embers bench lookup` and `bench model`. One *column* is
// one feature of a minibatch: bag b holds ids [offsets[b], offsets[b+1]). Forward and backward.
struct LookupColumn {
  std::vector<int64_t> ids, offsets;
  std::vector<float> weights;
};

class LookupPeer {
 public:
  virtual ~LookupPeer() = default;
  virtual void forward(const LookupColumn& column) = 0;
  // The backward pass of the column whose forward pass came last; out_gradient[bags x dim]. The gradient is
  // kept until the next one.
  virtual void backward(std::span<const float> out_gradient) = 0;
  virtual std::span<const float> output() const = 0;
  // Rows with a gradient, each once, and their values [rows x dim].
  virtual std::span<const int64_t> gradient_rows() const = 0;
  virtual std::span<const float> gradient_values() const = 0;
};

// Ways to the unique ones of some ids, and to the place of each id among them, in libtorch's operators.
enum class Unique {
  kHash,    // _unique2: a hash table
  kSort,    // sort, then unique_consecutive
  kPlaces,  // a number for each row of the table, which the ids themselves are written to and read from
};

// How libtorch's embedding_bag gets a gradient whose rows are unique.
enum class BagWay {
  kCoalesce,  // a sparse gradient, coalesced
  kSort,      // a sparse gradient; sort, then segment_reduce
  kPlaces,    // a sparse gradient; Unique::kPlaces, then index_add
  kCompact,   // unique rows first, gathered into a small table whose gradient is dense
};
inline constexpr std::array kBagWays{BagWay::kCoalesce, BagWay::kSort, BagWay::kPlaces, BagWay::kCompact};
const char* name(BagWay way);

// Combiner: sum or mean.
std::unique_ptr<LookupPeer> embedding_bag_peer(std::span<const float> table, int64_t dim, Combiner combiner,
                                               BagWay way);

struct ChainWay {
  Unique unique = Unique::kHash;
  bool segment_reduce = false;  // adds up segments, where they are in order; else index_add
};
inline constexpr std::array kChainWays{ChainWay{Unique::kHash, false},   ChainWay{Unique::kHash, true},
                                       ChainWay{Unique::kSort, false},   ChainWay{Unique::kSort, true},
                                       ChainWay{Unique::kPlaces, false}, ChainWay{Unique::kPlaces, true}};
std::string name(const ChainWay& way);

// The operators that an unfused safe_embedding_lookup_sparse is made of, one libtorch operator each: prune,
// fill empty rows, unique, gather, scatter to the ids, segment sum, divide (mean). Nothing is pruned or
// filled where nothing need be. With max_norm, it also has weights. Its gradient is that of the unique rows.
// Combiner: sum or mean.
std::unique_ptr<LookupPeer> chain_peer(std::span<const float> table, int64_t dim, Combiner combiner,
                                       ChainWay way, std::optional<float> max_norm = {});

}  // namespace embers
