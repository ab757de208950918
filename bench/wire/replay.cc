#include "bench/wire/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "bench/wire/checked_rows.h"

namespace embers {
namespace {

constexpr size_t kSlots = 2 * kBenchDim;

}  // namespace

Replay::Replay(const KeyMinibatches& uniform, const KeyMinibatches& zipf) : uniform_(uniform), zipf_(zipf) {
  const auto look_at = [this](std::span<const int64_t> keys) {
    for (const int64_t key : keys)
      if (place_.emplace(key, keys_.size()).second) keys_.push_back(key);
  };
  for (size_t m = 0; m < std::min(kReplayed, uniform.size()); ++m) look_at(uniform[m]);
  look_at(zipf[0]);
  rows_.assign(keys_.size() * kBenchDim, kCheckedStart);
  slots_.resize(keys_.size() * kSlots);
  moved_.resize(keys_.size());
}

void Replay::trained(bool zipf, size_t minibatch, uint64_t step) {
  pushes_.push_back({zipf, minibatch % (zipf ? zipf_ : uniform_).size(), step});
}

const std::vector<size_t>& Replay::places_of(const Push& push) {
  const auto [places, is_new] = places_.try_emplace({push.zipf, push.minibatch});
  if (is_new)
    for (const int64_t key : (push.zipf ? zipf_ : uniform_)[push.minibatch])
      if (const auto found = place_.find(key); found != place_.end()) places->second.push_back(found->second);
  return places->second;
}

void Replay::replay() {
  const std::vector<float> gradient(kBenchDim, kTimedGradient);
  for (const Push& push : pushes_) {
    const storage::UpdateKernel kernel = adam_->kernel({push.step, kCheckedRate});
    for (const size_t at : places_of(push)) {
      kernel(std::span(rows_).subspan(at * kBenchDim, kBenchDim),
             std::span(slots_).subspan(at * kSlots, kSlots), gradient);
      moved_[at] = true;
    }
  }
  pushes_.clear();
}

Replay::Deviation Replay::deviation(const RowsOf& rows_of) {
  replay();
  for (size_t m = 0; m < std::min(kReplayed, uniform_.size()); ++m)
    for (const int64_t key : uniform_[m])
      if (!moved_[place_.at(key)]) fail(ErrorCode::kInternal, "minibatch {} was never trained on", m);
  double moved = 0, off = 0, way = 0, lost = 0;
  for (size_t begin = 0; begin < keys_.size(); begin += kBenchKeys) {
    const size_t count = std::min(kBenchKeys, keys_.size() - begin);
    const std::vector<float> found = rows_of(std::span(keys_).subspan(begin, count));
    for (size_t i = 0; i < count; ++i) {
      if (!moved_[begin + i]) continue;
      bool is_right = true;
      for (size_t column = 0; column < kBenchDim; ++column) {
        const double expected = double{kCheckedStart} - double{rows_[(begin + i) * kBenchDim + column]};
        const double came = double{kCheckedStart} - double{found.at(i * kBenchDim + column)};
        const double may_differ = kAllowed * kCheckedRate + kAllowedOfWay * std::abs(expected);
        is_right = is_right && std::abs(came - expected) <= may_differ;  // not of a number that is none
        way += expected;
        lost += std::isfinite(came) ? expected - came : expected;
      }
      moved += 1;
      if (!is_right) off += 1;
    }
  }
  return {off / moved, lost / way};
}

std::string Replay::answer(const RowsOf& rows_of) {
  const Deviation found = deviation(rows_of);
  return fmt::format("{} {}", found.rows_off, found.way_lost);
}

}  // namespace embers
