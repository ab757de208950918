#include "bench/peers/lookup_peers.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <tuple>
#include <utility>

namespace embers {
namespace {

using torch::Tensor;

Tensor view(const std::vector<int64_t>& v) {
  return torch::from_blob(const_cast<int64_t*>(v.data()), {static_cast<int64_t>(v.size())}, torch::kLong);
}

Tensor view(std::span<const float> v, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(v.data()), shape, torch::kFloat);
}

Tensor segment_sums(const Tensor& values, const Tensor& lengths) {
  return torch::segment_reduce(values, "sum", c10::optional<Tensor>(lengths), c10::nullopt, c10::nullopt, 0,
                               /*unsafe=*/true);
}

class UniqueIds {
 public:
  struct Result {
    Tensor ids, place;  // the unique ones; of each id, its number among them
  };

  UniqueIds(Unique way, int64_t rows) : way_(way) {
    if (way == Unique::kPlaces) places_ = torch::zeros({rows}, torch::kLong);
  }

  Result of(const Tensor& ids) {
    if (way_ == Unique::kPlaces) return by_places(ids);
    if (way_ == Unique::kSort) return by_sorting(ids);
    const auto unique = torch::_unique2(ids, /*sorted=*/false, /*return_inverse=*/true);
    return {std::get<0>(unique), std::get<1>(unique)};
  }

 private:
  static Result by_sorting(const Tensor& ids) {
    const auto [sorted, order] = ids.sort();
    const auto unique = torch::unique_consecutive(sorted, /*return_inverse=*/true);
    return {std::get<0>(unique), torch::empty_like(ids).scatter_(0, order, std::get<1>(unique))};
  }

  // Of equal ids, the one that is written last is the first of its kind, so to say.
  Result by_places(const Tensor& ids) {
    const Tensor numbers = torch::arange(ids.numel());
    places_.index_put_({ids}, numbers);
    const Tensor unique = ids.masked_select(places_.index_select(0, ids) == numbers);
    places_.index_put_({unique}, numbers.slice(0, 0, unique.numel()));
    return {unique, places_.index_select(0, ids)};
  }

  const Unique way_;
  Tensor places_;
};

class TorchPeer : public LookupPeer {
 public:
  TorchPeer(std::span<const float> table, int64_t dim)
      : dim_(dim), table_(view(table, {static_cast<int64_t>(table.size()) / dim, dim}).requires_grad_()) {}

  std::span<const float> output() const override { return floats(output_); }
  std::span<const int64_t> gradient_rows() const override {
    return {rows_.data_ptr<int64_t>(), static_cast<size_t>(rows_.numel())};
  }
  std::span<const float> gradient_values() const override { return floats(values_); }

 protected:
  Tensor gradient_of(const Tensor& input, std::span<const float> out_gradient) const {
    return torch::autograd::grad({output_}, {input}, {view(out_gradient, output_.sizes())}).front();
  }
  void keep(const Tensor& rows, const Tensor& values) {
    rows_ = rows.contiguous();
    values_ = values.contiguous();
  }
  void keep_sparse(const Tensor& gradient) { keep(gradient._indices().squeeze(0), gradient._values()); }

  static std::span<const float> floats(const Tensor& t) {
    return {t.data_ptr<float>(), static_cast<size_t>(t.numel())};
  }

  const int64_t dim_;
  Tensor table_, output_;

 private:
  Tensor rows_, values_;
};

class EmbeddingBag : public TorchPeer {
 public:
  EmbeddingBag(std::span<const float> table, int64_t dim, Combiner combiner, BagWay way)
      : TorchPeer(table, dim),
        mode_(combiner == Combiner::kMean ? 1 : 0),
        way_(way),
        unique_(way == BagWay::kPlaces || way == BagWay::kCompact ? Unique::kPlaces : Unique::kSort,
                table_.size(0)) {}

  void forward(const LookupColumn& column) override {
    const Tensor ids = view(column.ids), offsets = view(column.offsets);
    if (way_ != BagWay::kCompact) {
      output_ = bags(table_, ids, offsets, /*sparse=*/true);
      return;
    }
    UniqueIds::Result unique = unique_.of(ids);
    unique_rows_ = std::move(unique.ids);
    compact_ = table_.detach().index_select(0, unique_rows_).requires_grad_();
    output_ = bags(compact_, unique.place, offsets, /*sparse=*/false);
  }

  void backward(std::span<const float> out_gradient) override {
    if (way_ == BagWay::kCompact) return keep(unique_rows_, gradient_of(compact_, out_gradient));
    const Tensor gradient = gradient_of(table_, out_gradient);
    if (way_ == BagWay::kCoalesce) return keep_sparse(gradient.coalesce());
    const Tensor rows = gradient._indices().squeeze(0), values = gradient._values();
    if (way_ == BagWay::kSort) {
      const auto [sorted, order] = rows.sort();
      const auto unique = torch::unique_consecutive(sorted, false, /*return_counts=*/true);
      return keep(std::get<0>(unique), segment_sums(values.index_select(0, order), std::get<2>(unique)));
    }
    const UniqueIds::Result unique = unique_.of(rows);
    keep(unique.ids, torch::zeros({unique.ids.numel(), dim_}).index_add_(0, unique.place, values));
  }

 private:
  Tensor bags(const Tensor& table, const Tensor& ids, const Tensor& offsets, bool sparse) const {
    return std::get<0>(torch::embedding_bag(table, ids, offsets, false, mode_, sparse, c10::nullopt,
                                            /*include_last_offset=*/true));
  }

  const int64_t mode_;
  const BagWay way_;
  UniqueIds unique_;
  Tensor unique_rows_, compact_;  // of the last lookup
};

class Chain : public TorchPeer {
 public:
  Chain(std::span<const float> table, int64_t dim, Combiner combiner, ChainWay way,
        std::optional<float> max_norm)
      : TorchPeer(table, dim),
        mean_(combiner == Combiner::kMean),
        full_(max_norm.has_value()),
        max_norm_(max_norm.value_or(0)),
        way_(way),
        unique_(way.unique, table_.size(0)) {}

  void forward(const LookupColumn& column) override {
    const Tensor offsets = view(column.offsets);
    const int64_t bags = offsets.numel() - 1;
    Tensor ids = view(column.ids), counts = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
    Tensor segments = torch::repeat_interleave(counts), weights;
    if (full_) weights = view(column.weights, {static_cast<int64_t>(column.weights.size())});
    const auto retain = [&](const Tensor& keep) {
      if (keep.all().item<bool>()) return;
      ids = ids.masked_select(keep);
      segments = segments.masked_select(keep);
      if (full_) weights = weights.masked_select(keep);
      counts = torch::bincount(segments, {}, bags);
    };
    retain(ids >= 0);
    if (full_) retain(weights > 0);
    const Tensor empty = counts == 0;
    const bool fills = empty.any().item<bool>();
    if (fills) {
      const Tensor fill = empty.nonzero().squeeze(1);
      ids = torch::cat({ids, torch::zeros_like(fill)});
      segments = torch::cat({segments, fill});
      if (full_) weights = torch::cat({weights, torch::ones({fill.numel()})});
    }

    const UniqueIds::Result unique = unique_.of(ids);
    Tensor rows = torch::embedding(table_, unique.ids, -1, false, /*sparse=*/true);
    if (full_) rows = rows * (max_norm_ / rows.norm(2, {1}, true).clamp_min(max_norm_));
    Tensor each = rows.index_select(0, unique.place);
    if (full_) each = each * weights.unsqueeze(1);
    Tensor sum = way_.segment_reduce && !fills ? segment_sums(each, counts)
                                               : torch::zeros({bags, dim_}).index_add(0, segments, each);
    if (mean_) {
      const Tensor divisor = full_ ? torch::zeros({bags}).index_add(0, segments, weights)
                                   : counts.clamp_min(1).to(torch::kFloat);
      sum = sum / divisor.unsqueeze(1);
    }
    output_ = fills ? torch::where(empty.unsqueeze(1), torch::zeros({1}), sum) : sum;
  }

  // Its rows are unique.
  void backward(std::span<const float> out_gradient) override {
    keep_sparse(gradient_of(table_, out_gradient));
  }

 private:
  const bool mean_, full_;
  const float max_norm_;
  const ChainWay way_;
  UniqueIds unique_;
};

}  // namespace

const char* name(BagWay way) {
  switch (way) {
    case BagWay::kCoalesce:
      return "coalesce";
    case BagWay::kSort:
      return "sort";
    case BagWay::kPlaces:
      return "places";
    case BagWay::kCompact:
      return "compact";
  }
  return "";
}

std::string name(const ChainWay& way) {
  const char* const unique = way.unique == Unique::kHash   ? "hash"
                             : way.unique == Unique::kSort ? "sort"
                                                           : "places";
  return std::string(unique) + (way.segment_reduce ? ", segment_reduce" : ", index_add");
}

std::unique_ptr<LookupPeer> embedding_bag_peer(std::span<const float> table, int64_t dim, Combiner combiner,
                                               BagWay way) {
  return std::make_unique<EmbeddingBag>(table, dim, combiner, way);
}

std::unique_ptr<LookupPeer> chain_peer(std::span<const float> table, int64_t dim, Combiner combiner,
                                       ChainWay way, std::optional<float> max_norm) {
  return std::make_unique<Chain>(table, dim, combiner, way, max_norm);
}

}  // namespace embers
