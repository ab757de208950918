#include "model/forward.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "model/lookup/combine_all.h"

namespace embers {
namespace {

// The leaf owns the rows, also when a model keeps a tensor longer than the minibatch.
torch::Tensor leaf_over(FloatBuffer rows, int64_t count, int64_t dim, bool training) {
  auto owner = std::make_shared<FloatBuffer>(std::move(rows));
  float* const data = owner->data();
  return torch::from_blob(
             data, {count, dim}, [owner](void*) {}, torch::kFloat)
      .set_requires_grad(training);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

EmbeddingImpl::Rows::Rows(const Discovery& model, const data::Minibatch& minibatch, const Lookups& lookups,
                          std::vector<FloatBuffer> bets, const ModelRunner::LatePull& late, bool training)
    : model_(model),
      minibatch_(minibatch),
      lookups_(lookups),
      late_(late),
      training_(training),
      leaves_(model.plan.kinds.size()),
      known_(model.plan.kinds.size()),
      pass_(std::make_shared<CombinePass>()) {
  if (bets.size() != lookups.tables.size())
    fail(ErrorCode::kInternal, "rows of {} tables were pulled, {} were asked for", bets.size(),
         lookups.tables.size());
  for (size_t i = 0; i < bets.size(); ++i) {
    const Lookups::Table& table = lookups.tables[i];
    add_leaf(table.table, table.unique, std::move(bets[i]), model.dims.at(table.table));
  }
  for (const Discovery::Layer& layer : model.layers) layer.module->bind(this);
}

EmbeddingImpl::Rows::~Rows() {
  for (const Discovery::Layer& layer : model_.layers) layer.module->bind(nullptr);
}

void EmbeddingImpl::Rows::add_leaf(TableId table, KeysView keys, FloatBuffer rows, int64_t dim) {
  const auto count = static_cast<int64_t>(keys.size());
  if (rows.size() != static_cast<size_t>(count * dim))
    fail(ErrorCode::kInternal, "{} floats were pulled for {} rows of dim {}", rows.size(), count, dim);
  leaves_[table].push_back({keys, leaf_over(std::move(rows), count, dim, training_)});
}

size_t EmbeddingImpl::Rows::layer_index(const EmbeddingImpl& layer) const {
  const auto at = std::find_if(model_.layers.begin(), model_.layers.end(),
                               [&](const Discovery::Layer& l) { return l.module.get() == &layer; });
  return static_cast<size_t>(at - model_.layers.begin());
}

const Lookups::Inverse* EmbeddingImpl::Rows::prepared(size_t layer, const Ids& ids) const {
  for (const Lookups::Inverse& inverse : lookups_.inverses)
    if (inverse.layer == layer && &minibatch_.ids[inverse.feature] == &ids) return &inverse;
  return nullptr;
}

EmbeddingImpl::Rows::Place EmbeddingImpl::Rows::find(const EmbeddingImpl& layer, const Ids& ids) {
  const size_t index = layer_index(layer);
  const Lookups::Inverse* const inverse = prepared(index, ids);
  const TableId table = model_.layers[index].table;
  if (inverse == nullptr || leaves_[table].empty()) return find(layer, ids.keys, ids.offsets, ids.weights);
  return {leaves_[table].front().bet, {inverse->position, ids.offsets, ids.weights}, pass_};
}

EmbeddingImpl::Rows::Place EmbeddingImpl::Rows::find(const EmbeddingImpl& layer, KeysView keys,
                                                     std::vector<int64_t> offsets,
                                                     std::vector<float> weights) {
  const TableId table = model_.layers[layer_index(layer)].table;
  const EmbeddingOptions& options = layer.options();
  Call& call = calls_.emplace_back();
  call.offsets = std::move(offsets);
  call.weights = std::move(weights);
  call.position.resize(keys.size());
  KeyIndex index(options.key_kind);
  const bool skip_zero = options.mask_zero && options.combiner != Combiner::kNone;
  if (prunes(options.combiner) && !call.weights.empty()) {
    index.add_weighted(keys, call.weights, skip_zero, call.position);
  } else {
    index.add(keys, skip_zero, call.position);
  }
  call.unique = index.take();
  add_leaf(table, call.unique, late_bet(layer, table, call.unique), options.output_dim);
  return {leaves_[table].back().bet, {call.position, call.offsets, call.weights}, pass_};
}

torch::Tensor EmbeddingImpl::Rows::combined(const EmbeddingImpl& layer, const Ids& ids) {
  const Lookups::Inverse* const inverse = prepared(layer_index(layer), ids);
  if (inverse == nullptr) return {};
  if (combined_.empty()) combine_prepared();
  return combined_[static_cast<size_t>(inverse - lookups_.inverses.data())];
}

void EmbeddingImpl::Rows::combine_prepared() {
  combined_.resize(lookups_.inverses.size());
  std::vector<torch::Tensor> bets;
  std::vector<size_t> bet_of(leaves_.size(), SIZE_MAX), inverse_of;
  std::vector<CombinePart> parts;
  for (size_t i = 0; i < lookups_.inverses.size(); ++i) {
    const Lookups::Inverse& inverse = lookups_.inverses[i];
    const Discovery::Layer& layer = model_.layers[inverse.layer];
    const EmbeddingOptions& options = layer.module->options();
    const Ids& ids = minibatch_.ids[inverse.feature];
    const bool weighed = ids.weights.empty() || ids.weights.size() == ids.keys.size();
    if (leaves_[layer.table].empty() || options.combiner == Combiner::kNone || options.max_norm > 0 ||
        !weighed)
      continue;
    if (bet_of[layer.table] == SIZE_MAX) {
      bet_of[layer.table] = bets.size();
      bets.push_back(leaves_[layer.table].front().bet);
    }
    parts.push_back({bet_of[layer.table], options.combiner, {inverse.position, ids.offsets, ids.weights}});
    inverse_of.push_back(i);
  }
  const std::vector<torch::Tensor> out = combine_all(bets, std::move(parts), pass_);
  for (size_t i = 0; i < out.size(); ++i) combined_[inverse_of[i]] = out[i];
}

EmbeddingImpl::Rows::Known& EmbeddingImpl::Rows::known(TableId table, KeyKind kind) {
  if (known_[table]) return *known_[table];
  known_[table] = std::make_unique<Known>();
  Known& known = *known_[table];
  known.index.start(kind);
  for (const Leaf& leaf : leaves_[table]) {
    std::vector<int32_t> place(leaf.keys.size());
    known.index.add(leaf.keys, false, place);
    for (size_t i = 0; i < leaf.keys.size(); ++i)
      known.rows.push_back(leaf.bet.data_ptr<float>() + static_cast<int64_t>(i) * leaf.bet.size(1));
  }
  return known;
}

void EmbeddingImpl::Rows::note_activity(const Regularizer& regularizer, const torch::Tensor& out) {
  if (!training_ || !regularizer) return;
  const torch::Tensor penalty = regularizer.penalty(out) / minibatch_.examples;
  activity_ = activity_.defined() ? activity_ + penalty : penalty;
}

torch::Tensor EmbeddingImpl::Rows::penalty() const {
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

double EmbeddingImpl::Rows::combine_seconds() const { return pass_->seconds; }

// Each row of the table that the pass looked up, once.
std::vector<torch::Tensor> EmbeddingImpl::Rows::touched(TableId table) const {
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
FloatBuffer EmbeddingImpl::Rows::late_bet(const EmbeddingImpl& layer, TableId table, const Keys& unique) {
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
  if (!output.defined()) fail(ErrorCode::kInvalid, "model '{}': forward returned no tensor", name);
  return output;
}

}  // namespace embers
