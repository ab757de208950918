#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/wire/keys.h"
#include "storage/update_rules/update_rule.h"

namespace embers {

// What a side of `embers bench storage` trained on, so that rows can be looked at after it was timed: they
// must have come as far as the same steps of Adam bring rows, one after another, with the gradient that is
// timed. Looks at the keys of the first kReplayed minibatches in a random order, and at those of the first
// one by Zipf's law, which has the keys that are in nearly all of them. Keys of a minibatch differ.
class Replay {
 public:
  using RowsOf = std::function<std::vector<float>(std::span<const int64_t> keys)>;

  static constexpr size_t kReplayed = 8;  // or all, where there are fewer
  // Rounding, and pushes that overtake one another: in learning rates, and in shares of the way. A push that
  // was left out is one learning rate or more.
  static constexpr double kAllowed = 0.1, kAllowedOfWay = 0.001;

  // Both must outlive it.
  Replay(const KeyMinibatches& uniform, const KeyMinibatches& zipf);

  // In the order in which they were pushed. `step`: Adam's, 1 for the first of all pushes.
  void trained(bool zipf, size_t minibatch, uint64_t step);

  // As shares of the rows that were trained on, and of the ways that they should have come. kInternal when a
  // minibatch that is looked at was never trained on, but for that of Zipf's law.
  struct Deviation {
    double rows_off = 0, way_lost = 0;
  };
  Deviation deviation(const RowsOf& rows_of);
  std::string answer(const RowsOf& rows_of);  // both, one line

 private:
  struct Push {
    bool zipf;
    size_t minibatch;
    uint64_t step;
  };
  void replay();
  const std::vector<size_t>& places_of(const Push& push);

  const KeyMinibatches &uniform_, &zipf_;
  const std::unique_ptr<const storage::UpdateRule> adam_ = storage::UpdateRule::make({"adam", {}});
  std::vector<int64_t> keys_;  // those that are looked at
  std::unordered_map<int64_t, size_t> place_;
  std::map<std::pair<bool, size_t>, std::vector<size_t>> places_;  // of minibatches
  std::vector<Push> pushes_;                                       // that are not in the rows yet
  std::vector<float> rows_, slots_;
  std::vector<bool> moved_;
};

}  // namespace embers
