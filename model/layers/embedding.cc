#include "model/layers/embedding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace embers {
namespace {

// A layer's table in messages.
std::string named(const std::string& table) {
  return table.empty() ? "an embedding table without a name" : fmt::format("embedding table '{}'", table);
}

template <class... Args>
[[noreturn]] void bad(const std::string& table, fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::kInvalid, "{} {}", named(table), fmt::format(format, std::forward<Args>(args)...));
}

void check_kind(const EmbeddingImpl& layer, KeyKind given) {
  if (given != layer.key_kind())
    bad(layer.table(), "has {} keys but was given {} ids", name(layer.key_kind()), name(given));
}

void check_default_id(const EmbeddingOptions& options, const std::string& table, KeyKind kind) {
  if (options.default_id && kind_of(*options.default_id) != kind)
    bad(table, "has {} keys, but its default_id is of kind {}", name(kind),
        name(kind_of(*options.default_id)));
}

void check_length(const EmbeddingImpl& layer, int64_t length) {
  const int64_t wanted = layer.options().input_length;
  if (wanted > 0 && length != wanted)
    bad(layer.table(), "wants {} ids per example (input_length) but was given {}", wanted,
        length == 0 ? "a varying number" : fmt::format("{}", length));
}

// A model may build Ids of its own.
void check_consistent(const EmbeddingImpl& layer, const Ids& ids) {
  const EmbeddingOptions& options = layer.options();
  const auto keys = static_cast<int64_t>(ids.keys.size());
  if (ids.offsets.empty() || ids.offsets.front() != 0 || ids.offsets.back() != keys)
    bad(layer.table(), "was given {} ids whose offsets do not go from 0 to {}", keys, keys);
  if (!ids.weights.empty() && options.combiner == Combiner::kNone)
    bad(layer.table(), "was given ids with weights but has no combiner: set it to sum, mean or sqrtn");
  if (!ids.weights.empty() && static_cast<int64_t>(ids.weights.size()) != keys)
    bad(layer.table(), "was given {} weights for {} ids", ids.weights.size(), keys);
  check_length(layer, ids.width);
  if (options.combiner == Combiner::kNone && ids.width * ids.examples() != keys)
    bad(layer.table(),
        "has no combiner, so every example needs the same number of ids: set combiner to sum, mean or sqrtn "
        "for ragged ids");
}

// Ids of a tensor as int64, without gaps.
torch::Tensor checked_ids(const EmbeddingImpl& layer, const torch::Tensor& ids) {
  check_kind(layer, KeyKind::kInt64);
  if (!ids.defined() || !at::isIntegralType(ids.scalar_type(), /*includeBool=*/false))
    bad(layer.table(), "wants an int64 or int32 tensor of ids");
  return ids.to(torch::kLong).contiguous();
}

// One for each id, flat; undefined if there are none.
torch::Tensor checked_weights(const EmbeddingImpl& layer, const torch::Tensor& weights,
                              at::IntArrayRef shape) {
  if (!weights.defined()) return {};
  if (layer.options().combiner == Combiner::kNone)
    bad(layer.table(), "was given ids with weights but has no combiner: set it to sum, mean or sqrtn");
  if (weights.scalar_type() != torch::kFloat || weights.sizes() != shape)
    bad(layer.table(),
        "wants a float32 tensor of weights, of the shape of the ids, {}, but was given one of {}",
        c10::str(shape), c10::str(weights.sizes()));
  return weights.reshape({-1});
}

// Offsets of examples with `width` ids each.
std::vector<int64_t> even_offsets(int64_t examples, int64_t width) {
  std::vector<int64_t> offsets(static_cast<size_t>(examples + 1));
  for (int64_t e = 0; e <= examples; ++e) offsets[static_cast<size_t>(e)] = e * width;
  return offsets;
}

}  // namespace

IdRules id_rules(const EmbeddingOptions& options) {
  return {options.mask_zero && options.combiner != Combiner::kNone,
          prunes(options.combiner) && options.prune_invalid_ids.value_or(true),
          options.prune_invalid_ids.value_or(false), options.default_id};
}

EmbeddingImpl::EmbeddingImpl(EmbeddingOptions options)
    : options_(std::move(options)),
      table_(options_.table),
      key_kind_(options_.key_kind.value_or(KeyKind::kBytes)) {
  if (is_reserved(options_.table))
    fail(ErrorCode::kInvalid, "'{}' is a reserved table: give the Embedding another name", options_.table);
  if (options_.output_dim < 1 || options_.output_dim > kMaxDim)
    bad(table_, "has dim {}: it must be 1 to {}", options_.output_dim, kMaxDim);
  if (options_.input_dim < 0)
    bad(table_, "has input_dim {}: leave it 0 when the number of rows is unknown", options_.input_dim);
  using Limits = std::numeric_limits<float>;  // it clips floats
  if (options_.max_norm != 0 && !(options_.max_norm >= Limits::min() && options_.max_norm <= Limits::max()))
    bad(table_, "has max_norm {}: give a positive number that a float32 can hold, or 0 for none",
        options_.max_norm);
  if (options_.input_length < 0)
    bad(table_, "has input_length {}: leave it 0 for any", options_.input_length);
  if (options_.combiner == Combiner::kNone && (options_.default_id || options_.prune_invalid_ids))
    bad(table_, "has {} but no combiner: set it to sum, mean or sqrtn",
        options_.default_id ? "a default_id" : "prune_invalid_ids");
  if (options_.key_kind) check_default_id(options_, table_, key_kind_);
}

void EmbeddingImpl::settle(std::string table, KeyKind kind) {
  check_default_id(options_, table, kind);
  table_ = std::move(table);
  key_kind_ = kind;
}

RowSource& EmbeddingImpl::rows() const {
  if (rows_ == nullptr)
    bad(table_,
        "was looked up outside a minibatch's pass: call it in the model's forward or loss, and register the "
        "layer as a module");
  return *rows_;
}

torch::Tensor EmbeddingImpl::forward(const Ids& ids) {
  check_kind(*this, ids.keys.kind());
  check_consistent(*this, ids);
  const torch::Tensor out = rows().lookup(*this, ids);
  rows().note_activity(options_.activity_regularizer, out);
  return options_.combiner == Combiner::kNone ? out.view({ids.examples(), ids.width, options_.output_dim})
                                              : out;
}

torch::Tensor EmbeddingImpl::lookup(const torch::Tensor& ids, std::vector<int64_t> offsets,
                                    const torch::Tensor& weights, std::vector<int64_t> shape) {
  const std::span<const int64_t> keys(ids.data_ptr<int64_t>(), static_cast<size_t>(ids.numel()));
  const torch::Tensor out =
      rows().lookup(*this, RowSource::Call{{KeyKind::kInt64, keys, {}, {}}, std::move(offsets), weights});
  rows().note_activity(options_.activity_regularizer, out);
  shape.push_back(options_.output_dim);
  return out.view(shape);
}

torch::Tensor EmbeddingImpl::forward(const torch::Tensor& ids, const torch::Tensor& weights) {
  const torch::Tensor flat = checked_ids(*this, ids);
  const bool combined = options_.combiner != Combiner::kNone;
  if (combined && ids.dim() == 0) bad(table_, "combines ids along the last axis: a scalar has none");
  check_length(*this, ids.dim() == 0 ? 1 : ids.size(-1));
  std::vector<int64_t> shape = ids.sizes().vec();
  std::vector<int64_t> offsets;
  if (combined) {
    const int64_t width = shape.back();
    shape.pop_back();
    offsets = even_offsets(c10::multiply_integers(shape), width);
  }
  return lookup(flat, std::move(offsets), checked_weights(*this, weights, ids.sizes()), std::move(shape));
}

torch::Tensor EmbeddingImpl::forward(const SparseIdTensors& ids) {
  const torch::Tensor flat = checked_ids(*this, ids.values);
  if (options_.combiner == Combiner::kNone)
    bad(table_, "was given sparse ids but has no combiner: set it to sum, mean or sqrtn");
  if (!ids.dense_shape.empty()) check_length(*this, ids.dense_shape.back());
  std::vector<int64_t> offsets = bag_offsets(ids);
  std::vector<int64_t> shape = ids.dense_shape;
  shape.pop_back();
  return lookup(flat, std::move(offsets), checked_weights(*this, ids.weights, flat.sizes()),
                std::move(shape));
}

torch::Tensor EmbeddingImpl::compute_mask(const torch::Tensor& ids) const {
  return options_.mask_zero ? ids.ne(0) : torch::Tensor();
}

torch::Tensor EmbeddingImpl::compute_mask(const Ids& ids) const {
  if (!options_.mask_zero) return {};
  torch::Tensor mask = torch::empty({static_cast<int64_t>(ids.keys.size())}, torch::kBool);
  bool* const out = mask.data_ptr<bool>();
  const KeysView keys = ids.keys;
  for (size_t i = 0; i < keys.size(); ++i)
    out[i] = keys.kind == KeyKind::kInt64 ? keys.ints[i] != 0 : !keys.bytes_at(i).empty();
  return ids.width > 0 ? mask.view({ids.examples(), ids.width}) : mask;
}

void EmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "embers::Embedding(table=" << table_ << ", dim=" << options_.output_dim << ")";
}

}  // namespace embers
