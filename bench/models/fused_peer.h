#pragma once

#include <memory>
#include <optional>
#include <span>

#include "bench/peers/lookup_peers.h"

namespace embers {

// Ours, in the shape of those that it is compared with: fused_safe_embedding_lookup_sparse and its gradient,
// on so many threads. With max_norm, also with weights.
std::unique_ptr<LookupPeer> fused_peer(std::span<const float> table, int64_t dim, Combiner combiner,
                                       std::optional<float> max_norm = {}, int threads = 1);

}  // namespace embers
