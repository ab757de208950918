#include "model/layers/embedding.h"

#include <cmath>
#include <limits>

#include "model/forward.h"
#include "model/lookup/combine_all.h"

namespace embers {
namespace {

// Rows of norm n become row * max_norm / max(n, max_norm). clamp_min hands gradients on where n == max_norm,
// as tf.maximum does.
torch::Tensor clipped(const torch::Tensor& rows, double max_norm) {
  if (max_norm == 0) return rows;
  return rows * (max_norm / rows.norm(2, 1, true).clamp_min(max_norm));
}

torch::Tensor combine_rows(const EmbeddingImpl::Rows::Place& place, const EmbeddingOptions& options) {
  return combine_all({clipped(place.bet, options.max_norm)}, {{0, options.combiner, place.ids}}, place.pass)
      .front();
}

void check_kind(const EmbeddingOptions& options, KeyKind given) {
  if (given != options.key_kind)
    fail(ErrorCode::kInvalid, "embedding table '{}' has {} keys but was given {} ids", options.table,
         name(options.key_kind), name(given));
}

[[noreturn]] void fail_length(const EmbeddingOptions& options, int64_t length) {
  fail(ErrorCode::kInvalid, "embedding table '{}' wants {} ids an example (input_length) but was given {}",
       options.table, options.input_length, length == 0 ? "a varying number" : fmt::format("{}", length));
}

// A model may build Ids of its own.
void check_consistent(const EmbeddingOptions& options, const Ids& ids) {
  const auto keys = static_cast<int64_t>(ids.keys.size());
  const bool ascending = std::is_sorted(ids.offsets.begin(), ids.offsets.end());
  if (ids.offsets.empty() || ids.offsets.front() != 0 || ids.offsets.back() != keys || !ascending)
    fail(ErrorCode::kInvalid,
         "embedding table '{}' was given {} ids whose offsets do not go from 0 to {} in order", options.table,
         keys, keys);
  if (!ids.weights.empty() && options.combiner == Combiner::kNone)
    fail(ErrorCode::kInvalid,
         "embedding table '{}' was given ids with weights but has no combiner: set it to sum, mean or sqrtn",
         options.table);
  if (!ids.weights.empty() && static_cast<int64_t>(ids.weights.size()) != keys)
    fail(ErrorCode::kInvalid, "embedding table '{}' was given {} weights for {} ids", options.table,
         ids.weights.size(), keys);
  if (options.input_length > 0 && ids.width != options.input_length) fail_length(options, ids.width);
  if (options.combiner == Combiner::kNone && ids.width * ids.examples() != keys)
    fail(ErrorCode::kInvalid,
         "embedding table '{}' has no combiner, so every example needs the same number of ids: set combiner "
         "to sum, "
         "mean or sqrtn for ragged ids",
         options.table);
}

// Offsets of examples with `width` ids each.
std::vector<int64_t> even_offsets(int64_t examples, int64_t width) {
  std::vector<int64_t> offsets(static_cast<size_t>(examples + 1));
  for (int64_t e = 0; e <= examples; ++e) offsets[static_cast<size_t>(e)] = e * width;
  return offsets;
}

}  // namespace

EmbeddingImpl::EmbeddingImpl(EmbeddingOptions options) : options_(std::move(options)) {
  if (options_.table.empty()) fail(ErrorCode::kInvalid, "an Embedding layer needs the name of its table");
  if (is_reserved(options_.table))
    fail(ErrorCode::kInvalid, "'{}' is a reserved table: give the Embedding another name", options_.table);
  if (options_.output_dim < 1 || options_.output_dim > kMaxDim)
    fail(ErrorCode::kInvalid, "embedding table '{}' has dim {}: it must be 1 to {}", options_.table,
         options_.output_dim, kMaxDim);
  if (options_.input_dim < 0)
    fail(ErrorCode::kInvalid,
         "embedding table '{}' has input_dim {}: leave it 0 when the number of rows is unknown",
         options_.table, options_.input_dim);
  if (!(options_.max_norm >= 0) || std::isinf(options_.max_norm))
    fail(ErrorCode::kInvalid, "embedding table '{}' has max_norm {}: give a positive number, or 0 for none",
         options_.table, options_.max_norm);
  if (options_.input_length < 0)
    fail(ErrorCode::kInvalid, "embedding table '{}' has input_length {}: leave it 0 for any", options_.table,
         options_.input_length);
}

EmbeddingImpl::Rows& EmbeddingImpl::rows() const {
  if (rows_ == nullptr)
    fail(ErrorCode::kInvalid,
         "embedding table '{}' was looked up outside a minibatch's pass: call it in the model's forward or "
         "loss, and "
         "register the layer as a module",
         options_.table);
  return *rows_;
}

torch::Tensor EmbeddingImpl::forward(const Ids& ids) {
  check_kind(options_, ids.keys.kind());
  check_consistent(options_, ids);
  torch::Tensor out = rows().combined(*this, ids);
  if (!out.defined()) out = combine_rows(rows().find(*this, ids), options_);
  rows().note_activity(options_.activity_regularizer, out);
  return options_.combiner == Combiner::kNone ? out.view({ids.examples(), ids.width, options_.output_dim})
                                              : out;
}

torch::Tensor EmbeddingImpl::forward(const torch::Tensor& ids) {
  check_kind(options_, KeyKind::kInt64);
  if (!ids.defined() || ids.scalar_type() != torch::kLong)
    fail(ErrorCode::kInvalid, "embedding table '{}' wants an int64 tensor of ids", options_.table);
  const bool combined = options_.combiner != Combiner::kNone;
  if (combined && ids.dim() == 0)
    fail(ErrorCode::kInvalid, "embedding table '{}' combines ids along the last axis: a scalar has none",
         options_.table);
  if (options_.input_length > 0 && (ids.dim() == 0 || ids.size(-1) != options_.input_length))
    fail_length(options_, ids.dim() == 0 ? 1 : ids.size(-1));
  const torch::Tensor flat = ids.contiguous();
  const std::span<const int64_t> keys(flat.data_ptr<int64_t>(), static_cast<size_t>(flat.numel()));
  std::vector<int64_t> shape = ids.sizes().vec();
  std::vector<int64_t> offsets;
  if (combined) {
    const int64_t width = shape.back();
    shape.pop_back();
    offsets = even_offsets(c10::multiply_integers(shape), width);
  }
  shape.push_back(options_.output_dim);
  const torch::Tensor out =
      combine_rows(rows().find(*this, {KeyKind::kInt64, keys, {}, {}}, std::move(offsets)), options_);
  rows().note_activity(options_.activity_regularizer, out);
  return out.view(shape);
}

torch::Tensor EmbeddingImpl::compute_mask(const torch::Tensor& ids) const {
  return options_.mask_zero ? ids.ne(0) : torch::Tensor();
}

void EmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "embers::Embedding(table=" << options_.table << ", dim=" << options_.output_dim << ")";
}

}  // namespace embers
