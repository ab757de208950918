#include "model/forward.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "model/lookup/pre_lookup.h"

namespace embers {
namespace {

// The leaf owns the rows, also when a model keeps a tensor longer than the minibatch.
torch::Tensor leaf_over(std::shared_ptr<FloatBuffer> owner, int64_t count, int64_t dim, bool training) {
  float* const data = owner->data();
  return torch::from_blob(
             data, {count, dim}, [owner](void*) {}, torch::kFloat)
      .set_requires_grad(training);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

MinibatchRows::MinibatchRows(const Discovery& model, const data::Minibatch& minibatch, const Lookups& lookups,
                             std::vector<FloatBuffer> bets, const ModelRunner::LatePull& late,
                             CombineMemory& memory, bool training)
    : model_(model),
      minibatch_(minibatch),
      lookups_(lookups),
      late_(late),
      training_(training),
      leaves_(model.plan.kinds.size()),
      known_(model.plan.kinds.size()),
      pass_(std::make_shared<CombinePass>(CombinePass{memory})) {
  memory.start();
  if (bets.size() != lookups.tables.size())
    fail(ErrorCode::kInternal, "rows of {} tables were pulled, but {} were asked for", bets.size(),
         lookups.tables.size());
  for (size_t i = 0; i < bets.size(); ++i) {
    const Lookups::Table& table = lookups.tables[i];
    add_leaf(table.table, table.unique, std::move(bets[i]), model.dims.at(table.table));
  }
  for (const Discovery::Layer& layer : model.layers) layer.module->bind(this);
}

MinibatchRows::~MinibatchRows() {
  for (const Discovery::Layer& layer : model_.layers) layer.module->bind(nullptr);
}

void MinibatchRows::add_leaf(TableId table, KeysView keys, FloatBuffer rows, int64_t dim) {
  const auto count = static_cast<int64_t>(keys.size());
  if (rows.size() != static_cast<size_t>(count * dim))
    fail(ErrorCode::kInternal, "{} floats were pulled for {} rows of dim {}", rows.size(), count, dim);
  leaves_[table].push_back({keys, leaf_over(pass_->memory.share(std::move(rows)), count, dim, training_)});
}

size_t MinibatchRows::layer_index(const EmbeddingImpl& layer) const {
  const auto at = std::find_if(model_.layers.begin(), model_.layers.end(),
                               [&](const Discovery::Layer& l) { return l.module.get() == &layer; });
  return static_cast<size_t>(at - model_.layers.begin());
}

const Lookups::Inverse* MinibatchRows::prepared(size_t layer, const Ids& ids) const {
  for (const Lookups::Inverse& inverse : lookups_.inverses)
    if (inverse.layer == layer && &minibatch_.ids[inverse.feature] == &ids) return &inverse;
  return nullptr;
}

torch::Tensor MinibatchRows::lookup(const EmbeddingImpl& layer, const Ids& ids) {
  const size_t index = layer_index(layer);
  if (const Lookups::Inverse* const inverse = prepared(index, ids)) {
    if (combined_.empty()) combine_prepared();
    // Each result is handed out once: a model may change it in place and then look the same ids up again.
    torch::Tensor out = std::exchange(combined_[static_cast<size_t>(inverse - lookups_.inverses.data())], {});
    if (!out.defined() && can_combine(*inverse)) {
      const Leaf& leaf = leaves_[model_.layers[index].table].front();
      if (!leaf.overwritten) out = combine_all({leaf.bet}, {call_of(*inverse, 0)}, pass_).front();
    }
    if (out.defined()) return at::GradMode::is_enabled() ? out : out.detach();
  }
  if (!ascends(ids.offsets))  // the batch's own do
    fail(ErrorCode::kInvalid, "embedding table '{}' was given ids whose offsets are not in ascending order",
         layer.table());
  Late& call = calls_.emplace_back();
  call.offsets = ids.offsets;
  call.weights = ids.weights;
  return combine_late(layer, model_.layers[index].table, ids.keys, call, {});
}

torch::Tensor MinibatchRows::lookup(const EmbeddingImpl& layer, Call call) {
  Late& late = calls_.emplace_back();
  late.offsets = std::move(call.offsets);
  if (call.weights.defined()) {
    const torch::Tensor values = call.weights.contiguous();
    late.weights.assign(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
  }
  return combine_late(layer, model_.layers[layer_index(layer)].table, call.keys, late, call.weights);
}

torch::Tensor MinibatchRows::combine_late(const EmbeddingImpl& layer, TableId table, KeysView keys,
                                          Late& call, const torch::Tensor& weights) {
  const EmbeddingOptions& options = layer.options();
  call.position.resize(keys.size());
  KeyIndex index(keys.kind);
  const int32_t default_place = index.add(keys, call.offsets, call.weights, id_rules(options), call.position);
  call.unique = index.take();
  add_leaf(table, call.unique, late_bet(layer, table, call.unique), options.output_dim);
  const RaggedPositions ids{call.position, call.offsets, call.weights, 0, default_place};
  return combine_all({leaves_[table].back().bet}, {{0, options.combiner, ids, options.max_norm}}, pass_,
                     {weights})
      .front();
}

bool MinibatchRows::can_combine(const Lookups::Inverse& inverse) const {
  const Ids& ids = minibatch_.ids[inverse.feature];
  const bool weighed = ids.weights.empty() || ids.weights.size() == ids.keys.size();
  return weighed && !leaves_[model_.layers[inverse.layer].table].empty();
}

CombineCall MinibatchRows::call_of(const Lookups::Inverse& inverse, size_t bet) const {
  const EmbeddingOptions& options = model_.layers[inverse.layer].module->options();
  const Ids& ids = minibatch_.ids[inverse.feature];
  const bool even = ids.width * ids.examples() == static_cast<int64_t>(ids.keys.size());
  return {bet, options.combiner,
          RaggedPositions{inverse.position, ids.offsets, ids.weights, even ? ids.width : 0,
                          inverse.default_place},
          options.max_norm};
}

bool MinibatchRows::may_overwrite(TableId table) const {
  if (known_[table]) return false;
  bool clips = false;
  for (const Discovery::Layer& layer : model_.layers) {
    if (layer.table != table) continue;
    if (layer.module->options().embeddings_regularizer) return false;
    clips |= layer.module->options().max_norm > 0;
  }
  return clips;
}

void MinibatchRows::combine_prepared() {
  // The first call may be where a model has turned gradients off; the other calls need theirs all the same.
  const at::AutoGradMode gradients(training_);
  combined_.resize(lookups_.inverses.size());
  std::vector<torch::Tensor> bets;
  std::vector<size_t> bet_of(leaves_.size(), SIZE_MAX), inverse_of;
  std::vector<CombineCall> calls;
  std::vector<bool> may_overwrite;
  for (size_t i = 0; i < lookups_.inverses.size(); ++i) {
    const Lookups::Inverse& inverse = lookups_.inverses[i];
    if (!can_combine(inverse)) continue;
    const TableId table = model_.layers[inverse.layer].table;
    if (bet_of[table] == SIZE_MAX) {
      bet_of[table] = bets.size();
      bets.push_back(leaves_[table].front().bet);
      may_overwrite.push_back(this->may_overwrite(table));
      leaves_[table].front().overwritten = may_overwrite.back();
    }
    calls.push_back(call_of(inverse, bet_of[table]));
    inverse_of.push_back(i);
  }
  const std::vector<torch::Tensor> out = combine_all(bets, std::move(calls), pass_, {}, may_overwrite);
  for (size_t i = 0; i < out.size(); ++i) combined_[inverse_of[i]] = out[i];
}

MinibatchRows::Known& MinibatchRows::known(TableId table, KeyKind kind) {
  if (known_[table]) return *known_[table];
  known_[table] = std::make_unique<Known>();
  Known& known = *known_[table];
  known.index.start(kind);
  for (const Leaf& leaf : leaves_[table]) {
    if (leaf.overwritten) continue;
    std::vector<int32_t> place(leaf.keys.size());
    known.index.add(leaf.keys, false, place);
    for (size_t i = 0; i < leaf.keys.size(); ++i)
      known.rows.push_back(leaf.bet.data_ptr<float>() + static_cast<int64_t>(i) * leaf.bet.size(1));
  }
  return known;
}

void MinibatchRows::note_activity(const Regularizer& regularizer, const torch::Tensor& out) {
  if (!training_ || !regularizer) return;
  const torch::Tensor penalty = regularizer.penalty(out) / minibatch_.examples;
  activity_ = activity_.defined() ? activity_ + penalty : penalty;
}

torch::Tensor MinibatchRows::penalty() const {
  torch::Tensor sum = activity_;
  std::vector<bool> done(leaves_.size());
  for (const Discovery::Layer& layer : model_.layers) {
    const Regularizer& regularizer = layer.module->options().embeddings_regularizer;
    if (!training_ || !regularizer || done[layer.table]) continue;
    done[layer.table] = true;
    for (const torch::Tensor& rows : touched(layer.table)) {
      const torch::Tensor penalty = regularizer.penalty(rows);
      sum = sum.defined() ? sum + penalty : penalty;
    }
  }
  return sum;
}

// Each row of the table that the pass looked up, once.
std::vector<torch::Tensor> MinibatchRows::touched(TableId table) const {
  std::vector<torch::Tensor> rows;
  KeyIndex seen(model_.plan.kinds[table]);
  for (const Leaf& leaf : leaves_[table]) {
    const size_t before = seen.unique().size();
    std::vector<int32_t> place(leaf.keys.size());
    seen.add(leaf.keys, false, place);
    std::vector<int64_t> fresh;
    for (size_t i = 0; i < place.size(); ++i)
      if (static_cast<size_t>(place[i]) >= before) fresh.push_back(static_cast<int64_t>(i));
    rows.push_back(fresh.size() == place.size()
                       ? leaf.bet
                       : leaf.bet.index_select(0, torch::tensor(fresh, torch::kLong)));
  }
  return rows;
}

// Rows of `unique`: copies of those the table has, and pulled ones, which the table has from now on.
FloatBuffer MinibatchRows::late_bet(const EmbeddingImpl& layer, TableId table, const Keys& unique) {
  const auto dim = static_cast<size_t>(layer.options().output_dim);
  Known& have = known(table, unique.kind());
  const size_t before = have.rows.size();
  std::vector<int32_t> place(unique.size());
  have.index.add(unique, false, place);
  Keys missing(unique.kind());
  for (size_t i = 0; i < unique.size(); ++i)
    if (static_cast<size_t>(place[i]) >= before) missing.push_back_from(unique, i);
  FloatBuffer pulled(missing.size() * dim);
  if (!missing.empty()) late_(table, missing, pulled.span());

  FloatBuffer rows(unique.size() * dim);
  for (size_t i = 0; i < unique.size(); ++i) {
    const auto at = static_cast<size_t>(place[i]);
    float* const to = rows.data() + i * dim;
    std::copy_n(at < before ? have.rows[at] : pulled.data() + (at - before) * dim, dim, to);
    if (at >= before) have.rows.push_back(to);
  }
  return rows;
}

void guard_user_code(const std::string& model, const char* stage, const std::function<void()>& run) {
  try {
    run();
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& e) {
    fail(ErrorCode::kInvalid, "model '{}': {}: {}", model, stage, first_line(e.what_without_backtrace()));
  } catch (const std::exception& e) {
    fail(ErrorCode::kInvalid, "model '{}': {}: {}", model, stage, first_line(e.what()));
  }
}

torch::Tensor run_forward(Model& model, const std::string& name, const Batch& batch, bool training) {
  torch::Tensor output;
  guard_user_code(name, "forward", [&] {
    model.train(training);
    const torch::AutoGradMode gradients(training);
    output = model.forward(batch);
  });
  if (!output.defined()) fail(ErrorCode::kInvalid, "model '{}': forward did not return a tensor", name);
  return output;
}

}  // namespace embers
