#include "client/pipeline/own_steps.h"

#include <algorithm>
#include <functional>
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

void OwnSteps::add_to(Work& work, const std::vector<bool>& holders) const {
  const std::span<float> dense = work.rows.dense.span();
  const auto lacks = [&](const Step& step) {
    if (step.change.size() != dense.size()) return false;
    for (size_t owner = 0; owner < holders.size() && owner < work.versions.size(); ++owner)
      if (holders[owner] && work.versions[owner] && step.answers->lacks(owner, *work.versions[owner]))
        return true;
    return false;
  };
  for (const Step& step : steps_)
    if (lacks(step))
      std::transform(dense.begin(), dense.end(), step.change.begin(), dense.begin(), std::plus<>());
}

void OwnSteps::keep(Work& work, std::vector<float> change) {
  work.answers = std::make_shared<PushAnswers>();
  steps_.push_back({work.answers, std::move(change)});
  if (steps_.size() > most_) steps_.pop_front();
}

std::vector<bool> dense_holders(const ModelSpec& model, const OwnerMap& map, size_t owners) {
  std::vector<bool> holders(owners);
  const Keys keys = DenseKeys(model).dense;
  for (size_t i = 0; i < keys.size(); ++i) holders[owner_of(map, hash_key(keys, i))] = true;
  return holders;
}

}  // namespace embers
