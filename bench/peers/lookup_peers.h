#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
  // Rows with a gradient, and their values, to check that all sides computed the same.
  virtual std::vector<int64_t> gradient_rows() const = 0;
  virtual std::span<const float> gradient_values() const = 0;
};

// libtorch's embedding_bag(mode mean, sparse), its gradient coalesced.
std::unique_ptr<LookupPeer> embedding_bag_peer(std::span<const float> table, int64_t dim);

// The operators that an unfused safe_embedding_lookup_sparse is made of, one libtorch operator each: prune,
// fill empty rows, unique, gather, scatter to the ids, segment sum, divide (mean). With max_norm, it also has
// weights. Its gradient is that of the unique rows. Combiner: sum or mean.
std::unique_ptr<LookupPeer> chain_peer(std::span<const float> table, int64_t dim, Combiner combiner,
                                       std::optional<float> max_norm = {});

}  // namespace embers
