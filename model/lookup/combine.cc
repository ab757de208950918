#include "model/lookup/combine.h"

#include <algorithm>
#include <mutex>

#include "model/lookup/pre_lookup.h"
#include "model/lookup/weight_gradient.h"

namespace embers {

int64_t combined_rows(const CombineCall& call) {
  if (call.combiner == Combiner::kNone) return static_cast<int64_t>(call.ids.position.size());
  if (call.ids.width > 0) return static_cast<int64_t>(call.ids.position.size()) / call.ids.width;
  return static_cast<int64_t>(call.ids.offsets.size()) - 1;
}

void CombineMemory::start() { passes_used_ = clips_used_ = 0; }

LookupPass& CombineMemory::pass() {
  if (passes_used_ == passes_.size()) passes_.emplace_back();
  return passes_[passes_used_++];
}

CombineMemory::Clips& CombineMemory::clips() {
  if (clips_used_ == clips_.size()) clips_.emplace_back();
  return clips_[clips_used_++];
}

struct CombineMemory::Free {
  static constexpr size_t kMost = 128;

  // The shortest that is long enough, unless more than half of it would lie idle.
  FloatBuffer take(size_t floats) {
    const std::lock_guard lock(mutex);
    auto best = buffers.end();
    for (auto at = buffers.begin(); at != buffers.end(); ++at)
      if (at->room() >= floats && at->room() <= 2 * floats &&
          (best == buffers.end() || at->room() < best->room()))
        best = at;
    if (best == buffers.end()) return {};
    FloatBuffer buffer = std::move(*best);
    *best = std::move(buffers.back());
    buffers.pop_back();
    return buffer;
  }
  void give(FloatBuffer buffer) {
    if (buffer.data() == nullptr) return;
    const std::lock_guard lock(mutex);
    buffers.push_back(std::move(buffer));
    if (buffers.size() <= kMost) return;
    std::iter_swap(buffers.end() - 1,
                   std::min_element(buffers.begin(), buffers.end(),
                                    [](const auto& a, const auto& b) { return a.room() < b.room(); }));
    buffers.pop_back();
  }

  std::mutex mutex;
  std::vector<FloatBuffer> buffers;
  std::vector<std::unique_ptr<Scratch<float>>> scratch;  // the last one was used last
};

CombineMemory::CombineMemory() : free_(std::make_shared<Free>()) {}

FloatBuffer CombineMemory::take(size_t floats) {
  FloatBuffer buffer = free_->take(floats);
  if (buffer.data() == nullptr) buffer = FloatBuffer(floats + floats / 8);  // minibatches are not all as long
  buffer.fit(floats);
  return buffer;
}

std::shared_ptr<FloatBuffer> CombineMemory::share(FloatBuffer buffer) {
  return {new FloatBuffer(std::move(buffer)), [free = free_](FloatBuffer* held) {
            const std::unique_ptr<FloatBuffer> owned(held);
            free->give(std::move(*owned));
          }};
}

std::shared_ptr<Scratch<float>> CombineMemory::scratch() {
  const std::lock_guard lock(free_->mutex);
  std::unique_ptr<Scratch<float>> scratch = std::make_unique<Scratch<float>>();
  if (!free_->scratch.empty()) {
    scratch = std::move(free_->scratch.back());
    free_->scratch.pop_back();
  }
  return {scratch.release(), [free = free_](Scratch<float>* used) {
            const std::lock_guard lock(free->mutex);
            free->scratch.emplace_back(used);
          }};
}

Combination::Combination(const std::vector<Bet>& bets, std::vector<CombineCall> calls, CombineMemory& memory)
    : bets_(bets), calls_(std::move(calls)), memory_(memory) {
  tables_.reserve(bets.size());
  for (const Bet& bet : bets) tables_.emplace_back(std::vector{bet.rows}, bet.dim);
  calls_of_.resize(bets_.size());
  for (const CombineCall& call : calls_) {
    ++calls_of_[call.bet];
    passes_.push_back(&memory.pass());
    clip_of_.push_back(kNotClipped);
    if (call.max_norm == 0) continue;
    const auto max_norm = static_cast<float>(call.max_norm);
    auto at = std::find_if(clips_.begin(), clips_.end(), [&](const Clip& clip) {
      return clip.bet == call.bet && clip.rows->max_norm == max_norm;
    });
    if (at == clips_.end()) {
      CombineMemory::Clips& room = memory.clips();
      room.clips = clips_for(tables_[call.bet], max_norm, room.memory);
      at = clips_.insert(at, {call.bet, &room.clips, 0});
    }
    ++at->calls;
    clip_of_.back() = static_cast<size_t>(at - clips_.begin());
  }
}

SparseIds Combination::ids(const CombineCall& call) const {
  SparseIds ids{call.ids.position, call.ids.offsets, {}, call.ids.width};
  if (call.combiner == Combiner::kNone) {
    ids.width = 1;
  } else if (!call.ids.weights.empty()) {
    ids.weights = call.ids.weights;
  }
  return ids;
}

// Dedupe has masked what is to be pruned, whatever its weight.
LookupOptions Combination::options(const CombineCall& call) {
  LookupOptions options{
      call.combiner == Combiner::kNone ? Combiner::kSum : call.combiner, {}, {}, true, false};
  if (call.ids.default_place >= 0) options.default_id = call.ids.default_place;
  return options;
}

void Combination::forward(std::span<const std::span<float>> out, const Spread& spread) {
  const auto room_for = [&](const Clip& clip) {
    const Bet& bet = bets_[clip.bet];
    std::shared_ptr<Scratch<float>> room;
    if (bet.overwrite != nullptr && clip.calls == calls_of_[clip.bet]) {
      clip.rows->rows = {bet.overwrite, bet.rows.size()};
    } else {
      room = memory_.scratch();
      clip.rows->rows = room->take(bet.rows.size());
    }
    return room;
  };
  std::vector<std::shared_ptr<Scratch<float>>> kept(clips_.size());
  spread(clips_.size(), [&](size_t i) {
    if (clips_[i].calls == 1) return;
    kept[i] = room_for(clips_[i]);
    find_clips(tables_[clips_[i].bet], *clips_[i].rows);
  });
  spread(calls_.size(), [&](size_t i) {
    const LookupOptions how = options(calls_[i]);
    LookupPass& pass = *passes_[i];
    pre_lookup(tables_[calls_[i].bet], ids(calls_[i]), how, pass);
    std::shared_ptr<Scratch<float>> room;
    if (const size_t clip = clip_of_[i]; clip != kNotClipped) {
      pass.clips = clips_[clip].rows;
      pass.find_clips = clips_[clip].calls == 1;
      if (pass.find_clips) room = room_for(clips_[clip]);
    }
    post_lookup(how.combiner, {}, pass, memory_.workspace(), out[i]);
  });
}

void Combination::gradient(size_t bet, std::span<const OutGradient> of_calls, std::span<float> out) const {
  std::vector<const LookupPass*> passes;
  std::vector<OutGradient> gradients;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].bet != bet || of_calls[i].values.empty()) continue;
    passes.push_back(passes_[i]);
    gradients.push_back(of_calls[i]);
  }
  Scratch<float> memory;
  dense_gradient(passes, gradients, memory, out);
}

void Combination::weight_gradient(size_t call, std::span<const float> out_gradient,
                                  std::span<float> gradient) const {
  embers::weight_gradient(*passes_[call], ids(calls_[call]), options(calls_[call]), out_gradient, gradient);
}

}  // namespace embers
