#include "master/exact_auc.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace embers {
namespace {

__extension__ using Count = unsigned __int128;

constexpr size_t kMostOfARun = size_t{1} << 20;

// A small share of the memory, since a run is sorted only once it is complete.
size_t run_size(size_t memory) { return std::clamp<size_t>(memory / sizeof(uint32_t) / 16, 16, kMostOfARun); }

// Integers that are in the order of the scores and equal where these are: -0 becomes 0.
uint32_t in_order(float score) {
  const auto bits = std::bit_cast<uint32_t>(score == 0 ? 0.0f : score);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

}  // namespace

ExactAuc::ExactAuc(size_t memory)
    : memory_(memory), positives_(run_size(memory)), negatives_(run_size(memory)) {}

void ExactAuc::add(std::span<const float> scores, std::span<const float> labels) {
  const auto is_nan = [](float score) { return std::isnan(score); };
  exists_ = exists_ && scores.size() == labels.size() && std::none_of(scores.begin(), scores.end(), is_nan);
  if (!exists_) return;
  for (size_t i = 0; i < scores.size(); ++i)
    if ((labels[i] > 0.5f ? positives_ : negatives_).add(in_order(scores[i]))) make_room();
}

void ExactAuc::make_room() {
  while (memory() > memory_) (positives_.memory() > negatives_.memory() ? positives_ : negatives_).spill();
}

double ExactAuc::value() {
  if (!exists_ || positives_.size() == 0 || negatives_.size() == 0)
    return std::numeric_limits<double>::quiet_NaN();
  Count twice = 0;     // pairs in the right order, and half of the tied ones; times two
  uint64_t below = 0;  // negatives with a lower score
  SortedRuns::Reader positive(positives_), negative(negatives_);
  bool more = negative.next();
  while (positive.next()) {
    for (; more && negative.number() < positive.number(); more = negative.next()) below += negative.count();
    const uint64_t tied = more && negative.number() == positive.number() ? negative.count() : 0;
    twice += Count{positive.count()} * (2 * Count{below} + tied);
  }
  const Count pairs = Count{positives_.size()} * negatives_.size();
  return static_cast<double>(twice) / 2 / static_cast<double>(pairs);
}

}  // namespace embers
