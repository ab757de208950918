#include "data/derive.h"

#include <algorithm>

#include "base/errors.h"
#include "base/suggest.h"
#include "data/categorical.h"

namespace embers::data {
namespace {

template <class... Args>
[[noreturn]] void bad(const std::string& name, fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::kInvalid, "column '{}' {}", name, fmt::format(format, std::forward<Args>(args)...));
}

std::vector<std::string> categorical_names(const FeatureSchema& schema) {
  std::vector<std::string> names;
  for (const CategoricalFeature& feature : schema.categorical) names.push_back(feature.name);
  return names;
}

size_t numeric_index(const std::string& name, const std::string& source, const FeatureSchema& schema) {
  const auto at = std::find(schema.numeric.begin(), schema.numeric.end(), source);
  if (at == schema.numeric.end())
    bad(name, "reads numeric feature '{}', which the data does not have{}", source,
        suggestion(source, schema.numeric));
  return static_cast<size_t>(at - schema.numeric.begin());
}

}  // namespace

Derivation::Source Derivation::source_of(const std::string& name, const job::Feature& feature,
                                         const FeatureSchema& schema) {
  if (feature.ids.kind == job::IdKind::kBucketized)
    return {true, numeric_index(name, feature.column, schema), KeyKind::kInt64, false};
  const int index = schema.categorical_index(feature.column);
  if (index < 0)
    bad(name, "reads categorical feature '{}', which the data does not have{}", feature.column,
        suggestion(feature.column, categorical_names(schema)));
  const CategoricalFeature& source = schema.categorical[static_cast<size_t>(index)];
  if (feature.ids.kind == job::IdKind::kIdentity && source.key_kind != KeyKind::kInt64)
    bad(name, "is an identity column and needs int64 keys, but feature '{}' has strings", feature.column);
  return {false, static_cast<size_t>(index), source.key_kind, source.weighted};
}

Derivation::Derivation(job::Feature feature, const FeatureSchema& schema)
    : feature_(std::move(feature)), numerics_(schema.numeric.size()) {
  const bool crossed = feature_.ids.kind == job::IdKind::kCrossed;
  if (crossed) {
    for (const job::Feature& input : feature_.crossed)
      sources_.push_back(source_of(feature_.name, input, schema));
  } else {
    sources_.push_back(source_of(feature_.name, feature_, schema));
  }
  const bool weighted =
      std::any_of(sources_.begin(), sources_.end(), [](const Source& s) { return s.weighted; });
  if (weighted && crossed) bad(feature_.name, "crosses a feature with weights, which a cross cannot take");
  if (weighted && !feature_.weights.empty())
    bad(feature_.name, "gets weights from '{}', but feature '{}' has weights already", feature_.weights,
        feature_.column);
  if (!feature_.weights.empty())
    weights_ = static_cast<int>(numeric_index(feature_.name, feature_.weights, schema));
  feature_.key_kind = feature_.ids.kind == job::IdKind::kRaw ? sources_.front().kind : KeyKind::kInt64;
}

CategoricalFeature Derivation::schema() const {
  return {describe(feature_), feature_.key_kind, feature_.ids.buckets(),
          weights_ >= 0 || sources_.front().weighted};
}

// One run over a minibatch; holds the current example.
class Derivation::Pass {
 public:
  Pass(const Derivation& derivation, const Minibatch& minibatch)
      : d_(derivation), minibatch_(minibatch), terms_(d_.sources_.size()) {
    out_.keys = Keys(d_.feature_.key_kind);
  }

  Ids run() {
    for (int64_t e = 0; e < minibatch_.examples; ++e) {
      try {
        add(e);
      } catch (const BadValue& problem) {
        const auto at = static_cast<size_t>(e);
        const uint64_t record = at < minibatch_.records.size() ? minibatch_.records[at] : at;
        fail(ErrorCode::kInvalid, "record {} of the data: column '{}': {}", record, d_.feature_.name,
             problem.what());
      }
    }
    set_width();
    return std::move(out_);
  }

 private:
  void add(int64_t e) {
    const Source& source = d_.sources_.front();
    const size_t before = out_.keys.size();
    if (d_.feature_.ids.kind == job::IdKind::kRaw) {
      const Ids& from = minibatch_.ids.at(source.index);
      for (int64_t i = from.offsets[e]; i < from.offsets[e + 1]; ++i)
        out_.keys.push_back_from(from.keys, static_cast<size_t>(i));
      if (source.weighted)
        out_.weights.insert(out_.weights.end(), from.weights.begin() + from.offsets[e],
                            from.weights.begin() + from.offsets[e + 1]);
    } else {
      add_made(source, e);
    }
    if (d_.weights_ >= 0) add_weight(e, out_.keys.size() - before);
    out_.offsets.push_back(static_cast<int64_t>(out_.keys.size()));
  }

  void add_made(const Source& source, int64_t e) {
    ids_.clear();
    if (d_.feature_.ids.kind == job::IdKind::kCrossed) {
      for (size_t i = 0; i < terms_.size(); ++i) {
        terms_[i].clear();
        append_cross_terms(d_.feature_.crossed[i].ids, values_of(d_.sources_[i], e), terms_[i]);
      }
      append_crosses(d_.feature_.ids, terms_, ids_);
    } else {
      append_ids(d_.feature_.ids, values_of(source, e), ids_);
    }
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] < 0) continue;
      out_.keys.push_back(ids_[i]);
      if (source.weighted) {
        const Ids& from = minibatch_.ids[source.index];
        out_.weights.push_back(from.weights[static_cast<size_t>(from.offsets[e]) + i]);
      }
    }
  }

  void add_weight(int64_t e, size_t ids) {
    if (ids > 1) throw BadValue(fmt::format("one weight, '{}', for {} ids", d_.feature_.weights, ids));
    if (ids == 1) out_.weights.push_back(number(static_cast<size_t>(d_.weights_), e));
  }

  float number(size_t column, int64_t e) const {
    return minibatch_.numeric[static_cast<size_t>(e) * d_.numerics_ + column];
  }

  Values values_of(const Source& source, int64_t e) {
    if (source.numeric) {
      number_ = number(source.index, e);
      return std::span<const double>(&number_, 1);
    }
    const Ids& from = minibatch_.ids.at(source.index);
    const auto begin = static_cast<size_t>(from.offsets[e]), end = static_cast<size_t>(from.offsets[e + 1]);
    const KeysView keys = from.keys;
    if (source.kind == KeyKind::kInt64) return keys.ints.subspan(begin, end - begin);
    texts_.clear();
    for (size_t i = begin; i < end; ++i) texts_.push_back(keys.bytes_at(i));
    return std::span<const std::string_view>(texts_);
  }

  void set_width() {
    const int64_t width = minibatch_.examples == 0 ? 0 : out_.offsets[1];
    for (int64_t e = 0; e < minibatch_.examples; ++e)
      if (out_.offsets[e + 1] - out_.offsets[e] != width) return;
    out_.width = width;
  }

  const Derivation& d_;
  const Minibatch& minibatch_;
  Ids out_;
  std::vector<int64_t> ids_;
  std::vector<std::vector<uint64_t>> terms_;
  std::vector<std::string_view> texts_;
  double number_ = 0;
};

Ids Derivation::derive(const Minibatch& minibatch) const { return Pass(*this, minibatch).run(); }

std::string describe(const job::Feature& feature) {
  const job::Categorical& ids = feature.ids;
  const std::string given = ids.default_value ? fmt::format("{}", *ids.default_value) : "none";
  std::string text;
  switch (ids.kind) {
    case job::IdKind::kRaw:
      text = fmt::format("keys({})", feature.column);
      break;
    case job::IdKind::kIdentity:
      text = fmt::format("identity({}, num_buckets={}, default_value={})", feature.column, ids.num_buckets,
                         given);
      break;
    case job::IdKind::kHashBucket:
      text = fmt::format("hash_bucket({}, hash_bucket_size={})", feature.column, ids.num_buckets);
      break;
    case job::IdKind::kVocabulary:
      text = fmt::format("vocabulary({}, {} entries that hash to {:x}, default_value={}, num_oov_buckets={})",
                         feature.column, ids.vocabulary->size(),
                         hash_key(fmt::format("{}", fmt::join(ids.vocabulary->entries(), "\n"))), given,
                         ids.num_oov_buckets);
      break;
    case job::IdKind::kBucketized:
      text = fmt::format("bucketized({}, [{}])", feature.column, fmt::join(ids.boundaries, ", "));
      break;
    case job::IdKind::kCrossed:
      text = fmt::format("crossed(hash_bucket_size={}, hash_key={}", ids.num_buckets, ids.hash_key);
      for (const job::Feature& input : feature.crossed) text += ", " + describe(input);
      text += ")";
  }
  return feature.weights.empty() ? text : fmt::format("{} weighted by {}", text, feature.weights);
}

}  // namespace embers::data
