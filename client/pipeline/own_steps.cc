#include "client/pipeline/own_steps.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "client/pipeline/pull.h"
#include "storage/update_rules/update_rule.h"

namespace embers {

bool OwnSteps::are_carried(const job::Job& job, const TableSpec& dense) {
  const auto& training = job.training;
  if (training.mode == job::Mode::kSync || training.prefetch == 0 || training.staleness_modulation)
    return false;
  const auto rule = storage::UpdateRule::make(dense.update_rule);
  return !rule->remembers_all() && rule->clipping().value == 0 && !rule->clipping().needs_norms();
}

void OwnSteps::note(const Work& work) {
  noted_.resize(work.dense_reads.size());
  tells_ = false;
  bool by_others = false;
  for (size_t owner = 0; owner < noted_.size(); ++owner) {
    const auto& now = work.dense_reads[owner];
    if (!now || now->own_step == UINT64_MAX) continue;
    tells_ = true;
    const auto before = std::exchange(noted_[owner], now);
    by_others |= before && now->version > before->version &&
                 now->version - before->version > now->own_step - before->own_step;
  }
  if (tells_) ++alone_;
  if (by_others) alone_ = 0;
}

bool OwnSteps::is_lacking(const Step& step, const Work& work, size_t owner) {
  if (owner >= work.dense_reads.size() || !work.dense_reads[owner]) return false;
  return step.number > work.dense_reads[owner]->own_step && !step.not_applied->has(owner);
}

void OwnSteps::add_to(Work& work, std::span<const size_t> owners) const {
  const std::span<float> dense = work.rows.dense.span();
  if (dense.size() != owners.size() * kDenseChunk) return;
  for (const Step& step : steps_) {
    if (step.change.size() != dense.size()) continue;
    std::map<size_t, bool> lacking;  // by owner
    for (size_t chunk = 0; chunk < owners.size(); ++chunk) {
      const auto [at, is_new] = lacking.try_emplace(owners[chunk]);
      if (is_new) at->second = is_lacking(step, work, owners[chunk]);
      if (!at->second) continue;
      const auto part = dense.subspan(chunk * kDenseChunk, kDenseChunk);
      std::transform(part.begin(), part.end(), &step.change[chunk * kDenseChunk], part.begin(),
                     std::plus<>());
    }
  }
}

void OwnSteps::keep(Work& work, std::vector<float> change) {
  work.origin.step = ++last_;
  work.not_applied = std::make_shared<NotApplied>();
  steps_.push_back({work.origin.step, work.not_applied, std::move(change)});
  if (steps_.size() > most_) steps_.pop_front();
}

std::vector<size_t> dense_owners(const ModelSpec& model, const OwnerMap& map) {
  std::vector<size_t> owners;
  const Keys keys = DenseKeys(model).dense;
  for (size_t i = 0; i < keys.size(); ++i) owners.push_back(owner_of(map, hash_key(keys, i)));
  return owners;
}

}  // namespace embers
