#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/floats/float_buffer.h"
#include "model/lookup/dedupe.h"
#include "model/lookup/lookup_pass.h"
#include "model/lookup/post_lookup.h"

// Stage "combine": from the BETs of a minibatch to what its lookups give, and back. All arithmetic is the
// lookup engine's (pre_lookup, post_lookup, dense_gradient): here a BET is its table, and the places that
// dedupe found are its ids.
namespace embers {

// Which rows each result is made of. Ids with a negative position (kMasked) are left out and count for
// nothing.
struct RaggedPositions {
  std::span<const int32_t> position;  // of each id: a row of the BET
  std::span<const int64_t> offsets;   // example e holds ids [offsets[e], offsets[e+1]); not used by kNone
  std::span<const float> weights{};   // of each id; empty: all 1. Not used by kNone
  int64_t width = 0;                  // > 0: every example has as many ids, and offsets are not read
  int32_t default_place = kMasked;    // what an example without ids gets, with weight 1; kMasked: zeros
};

// One call of a layer.
struct CombineCall {
  size_t bet;         // which of the BETs it reads
  Combiner combiner;  // kNone: each id gives a row of its own, a masked one zeros
  RaggedPositions ids;
  double max_norm = 0;  // 0: rows are not clipped
};

// Rows of the result: one per id for kNone, else one per example.
int64_t combined_rows(const CombineCall& call);

// What calls leave for their gradients, and memory of floats that is used again: BETs, results and gradients
// are as long in one minibatch as in the next, and fresh memory costs page faults. *Thread safety*: none; but
// floats may be let go of by any thread.
class CombineMemory {
 public:
  CombineMemory();
  // Everything handed out but floats is free again.
  void start();
  LookupPass& pass();
  struct Clips {
    RowClips clips;
    RowClips::Memory memory;
  };
  Clips& clips();
  // So many, uninitialised. To be used again if they are shared; whoever takes them out of the share keeps
  // them.
  FloatBuffer take(size_t floats);
  std::shared_ptr<FloatBuffer> share(FloatBuffer buffer);
  // For one call: the next one has it while it is in the cache.
  std::shared_ptr<Scratch<float>> scratch();
  LookupWorkspace& workspace() { return workspace_; }

 private:
  std::deque<LookupPass> passes_;  // deques: what was handed out stays where it is
  std::deque<Clips> clips_;
  size_t passes_used_ = 0, clips_used_ = 0;
  struct Free;
  const std::shared_ptr<Free> free_;
  LookupWorkspace workspace_;
};

// Any number of calls at once, forward and backward. Refers to BETs, positions and memory, which stay as they
// are until the gradients are found. Results do not depend on how work is spread.
class Combination {
 public:
  struct Bet {
    std::span<const float> rows;  // unique x dim
    int64_t dim;
    // The rows again, where nobody else wants them: if all calls clip alike, rows are clipped where they are.
    // A copy of them costs as much memory traffic again.
    float* overwrite = nullptr;
  };
  // Calls work(0) .. work(count - 1), in any order, at the same time or not.
  using Spread = std::function<void(size_t count, const std::function<void(size_t)>& work)>;

  Combination(const std::vector<Bet>& bets, std::vector<CombineCall> calls, CombineMemory& memory);
  const std::vector<CombineCall>& calls() const { return calls_; }

  // out[i]: combined_rows x dim of call i. Ids are added in their order, so that the same input gives the
  // same bits.
  void forward(std::span<const std::span<float>> out, const Spread& spread);
  // Gradient of a BET, unique x dim, overwritten: calls in their order, then ids in theirs; zeros where there
  // is none. of_calls[i] is the gradient of call i's result; one without values adds nothing.
  void gradient(size_t bet, std::span<const OutGradient> of_calls, std::span<float> out) const;
  // Gradient of a call's weights, for a gradient of its result without gaps.
  void weight_gradient(size_t call, std::span<const float> out_gradient, std::span<float> gradient) const;

 private:
  SparseIds ids(const CombineCall& call) const;
  static LookupOptions options(const CombineCall& call);

  std::vector<Bet> bets_;
  std::vector<LocalTable> tables_;  // of the BETs
  std::vector<CombineCall> calls_;
  std::vector<size_t> calls_of_;     // how many each BET has
  std::vector<LookupPass*> passes_;  // of the calls
  // What calls clip by: one for each BET and max_norm.
  struct Clip {
    size_t bet;
    RowClips* rows;
    size_t calls;  // that clip by it
  };
  std::vector<Clip> clips_;
  static constexpr size_t kNotClipped = SIZE_MAX;
  std::vector<size_t> clip_of_;  // of the calls
  CombineMemory& memory_;
};

}  // namespace embers
