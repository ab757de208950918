#include "model/backward.h"

#include <algorithm>
#include <cmath>

namespace embers {
namespace {

using Leaf = MinibatchRows::Leaf;

IndexedSlices slices_of(TableId table, const Leaf& leaf, CombinePass& pass) {
  const torch::Tensor gradient = leaf.bet.grad();
  leaf.bet.mutable_grad() = torch::Tensor();
  return {table, Keys(leaf.keys), take_gradient(gradient, pass)};
}

// Adds the rows of several leaves by key, leaf after leaf.
IndexedSlices merged_slices(TableId table, const std::vector<Leaf>& leaves) {
  const auto dim = static_cast<size_t>(leaves.front().bet.size(1));
  KeyIndex index(leaves.front().keys.kind);
  std::vector<std::vector<int32_t>> places;
  for (const Leaf& leaf : leaves) index.add(leaf.keys, false, places.emplace_back(leaf.keys.size()));
  IndexedSlices slices{table, index.take(), {}};
  slices.values = FloatBuffer(slices.keys.size() * dim);
  std::fill_n(slices.values.data(), slices.values.size(), 0.0f);
  for (size_t l = 0; l < leaves.size(); ++l) {
    const torch::Tensor gradient = leaves[l].bet.grad().contiguous();
    const float* from = gradient.data_ptr<float>();
    for (const int32_t place : places[l]) {
      float* const to = slices.values.data() + static_cast<size_t>(place) * dim;
      std::transform(from, from + dim, to, to, std::plus<>());
      from += dim;
    }
  }
  return slices;
}

}  // namespace

torch::Tensor run_loss(Model& model, const std::string& name, const torch::Tensor& output, const Batch& batch,
                       const data::Minibatch& minibatch) {
  torch::Tensor loss;
  guard_user_code(name, "loss", [&] { loss = model.loss(output, batch); });
  if (!loss.defined() || loss.numel() != 1)
    fail(ErrorCode::kInvalid, "model '{}': loss must return one number, not {}", name,
         loss.defined() ? fmt::format("{}", loss.numel()) : "nothing");
  const auto value = loss.item<double>();
  if (!std::isfinite(value))
    fail(ErrorCode::kInvalid,
         "the loss of minibatch {} of epoch {} is {}: lower optimizer.learning_rate, or look at the numeric "
         "features "
         "of its records",
         minibatch.index, minibatch.epoch, value);
  return loss;
}

void run_backward(const std::string& name, const torch::Tensor& loss) {
  if (!loss.requires_grad()) return;
  guard_user_code(name, "backward", [&] { loss.backward(); });
}

std::vector<IndexedSlices> indexed_slices(MinibatchRows& rows) {
  std::vector<IndexedSlices> all;
  for (size_t table = 0; table < rows.leaves().size(); ++table) {
    std::vector<Leaf> leaves = rows.leaves()[table];
    std::erase_if(leaves, [](const Leaf& leaf) { return !leaf.bet.grad().defined() || leaf.keys.empty(); });
    if (leaves.empty()) continue;
    const auto id = static_cast<TableId>(table);
    all.push_back(leaves.size() == 1 ? slices_of(id, leaves.front(), rows.pass())
                                     : merged_slices(id, leaves));
  }
  return all;
}

}  // namespace embers
