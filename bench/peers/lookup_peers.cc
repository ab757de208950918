#include "bench/peers/lookup_peers.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

namespace embers {
namespace {

torch::Tensor view(const std::vector<int64_t>& v) {
  return torch::from_blob(const_cast<int64_t*>(v.data()), {static_cast<int64_t>(v.size())}, torch::kLong);
}

torch::Tensor view(std::span<const float> v, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(v.data()), shape, torch::kFloat);
}

class TorchPeer : public LookupPeer {
 public:
  TorchPeer(std::span<const float> table, int64_t dim)
      : dim_(dim), table_(view(table, {static_cast<int64_t>(table.size()) / dim, dim}).requires_grad_()) {}

  void backward(std::span<const float> out_gradient) override {
    const torch::Tensor gradient = view(out_gradient, output_.sizes());
    gradient_ = torch::autograd::grad({output_}, {table_}, {gradient}).front();
    if (!gradient_.is_coalesced()) gradient_ = finish(gradient_);
  }
  std::span<const float> output() const override { return floats(output_); }
  std::vector<int64_t> gradient_rows() const override {
    const torch::Tensor rows = gradient_._indices().contiguous();
    return {rows.data_ptr<int64_t>(), rows.data_ptr<int64_t>() + rows.numel()};
  }
  std::span<const float> gradient_values() const override { return floats(gradient_._values()); }

 protected:
  // What makes the rows of a gradient unique.
  virtual torch::Tensor finish(const torch::Tensor& gradient) = 0;
  static std::span<const float> floats(const torch::Tensor& t) {
    return {t.data_ptr<float>(), static_cast<size_t>(t.numel())};
  }

  const int64_t dim_;
  torch::Tensor table_, output_, gradient_;
};

class EmbeddingBag : public TorchPeer {
 public:
  using TorchPeer::TorchPeer;
  void forward(const LookupColumn& column) override {
    constexpr int64_t kMean = 1;
    output_ = std::get<0>(torch::embedding_bag(table_, view(column.ids), view(column.offsets), false, kMean,
                                               true, c10::nullopt, true));
  }

 private:
  torch::Tensor finish(const torch::Tensor& gradient) override { return gradient.coalesce(); }
};

class Chain : public TorchPeer {
 public:
  Chain(std::span<const float> table, int64_t dim, Combiner combiner, std::optional<float> max_norm)
      : TorchPeer(table, dim),
        mean_(combiner == Combiner::kMean),
        full_(max_norm.has_value()),
        max_norm_(max_norm.value_or(0)) {}

  void forward(const LookupColumn& column) override {
    torch::Tensor ids = view(column.ids), segments = segments_of(column);
    const int64_t bags = static_cast<int64_t>(column.offsets.size()) - 1;
    torch::Tensor weights;
    if (full_) weights = view(column.weights, {static_cast<int64_t>(column.weights.size())});
    const auto retain = [&](const torch::Tensor& keep) {
      ids = ids.masked_select(keep);
      segments = segments.masked_select(keep);
      if (full_) weights = weights.masked_select(keep);
    };
    retain(ids >= 0);
    if (full_) retain(weights > 0);
    const torch::Tensor counts = torch::bincount(segments, {}, bags), empty = counts == 0;
    const torch::Tensor fill = empty.nonzero().squeeze(1);
    ids = torch::cat({ids, torch::zeros_like(fill)});
    segments = torch::cat({segments, fill});
    if (full_) weights = torch::cat({weights, torch::ones({fill.numel()})});

    const auto unique = torch::_unique2(ids, /*sorted=*/false, /*return_inverse=*/true);
    torch::Tensor rows = torch::embedding(table_, std::get<0>(unique), -1, false, /*sparse=*/true);
    if (full_) rows = rows * (max_norm_ / rows.norm(2, {1}, true).clamp_min(max_norm_));
    torch::Tensor each = rows.index_select(0, std::get<1>(unique));
    if (full_) each = each * weights.unsqueeze(1);
    torch::Tensor sum = segment_sum(each, segments, counts, fill.numel() == 0);
    if (mean_) {
      const torch::Tensor divisor = full_ ? torch::zeros({bags}).index_add(0, segments, weights)
                                          : counts.clamp_min(1).to(torch::kFloat);
      sum = sum / divisor.unsqueeze(1);
    }
    output_ = torch::where(empty.unsqueeze(1), torch::zeros({1}), sum);
  }

 private:
  torch::Tensor finish(const torch::Tensor& gradient) override { return gradient; }  // its rows are unique

  torch::Tensor segments_of(const LookupColumn& column) {
    const torch::Tensor offsets = view(column.offsets);
    return torch::repeat_interleave(offsets.slice(0, 1) - offsets.slice(0, 0, -1));
  }

  // The faster of libtorch's ways: segment_reduce for short rows in the order of their segments, else
  // index_add.
  torch::Tensor segment_sum(const torch::Tensor& each, const torch::Tensor& segments,
                            const torch::Tensor& counts, bool in_order) {
    constexpr int64_t kShort = 32;
    if (in_order && dim_ <= kShort)
      return torch::segment_reduce(each, "sum", c10::optional<torch::Tensor>(counts), c10::nullopt,
                                   c10::nullopt, 0, /*unsafe=*/true);
    return torch::zeros({counts.numel(), dim_}).index_add(0, segments, each);
  }

  const bool mean_, full_;
  const float max_norm_;
};

}  // namespace

std::unique_ptr<LookupPeer> embedding_bag_peer(std::span<const float> table, int64_t dim) {
  return std::make_unique<EmbeddingBag>(table, dim);
}

std::unique_ptr<LookupPeer> chain_peer(std::span<const float> table, int64_t dim, Combiner combiner,
                                       std::optional<float> max_norm) {
  return std::make_unique<Chain>(table, dim, combiner, max_norm);
}

}  // namespace embers
