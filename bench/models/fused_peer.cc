#include "bench/models/fused_peer.h"

#include "model/lookup/operators/lookup_operators.h"

namespace embers {
namespace {

class FusedPeer final : public LookupPeer {
 public:
  FusedPeer(std::span<const float> table, int64_t dim, Combiner combiner, std::optional<float> max_norm,
            int threads)
      : table_({table}, dim), options_{combiner, max_norm, {}, true}, workspace_(threads) {}

  void forward(const LookupColumn& column) override {
    out_.resize((column.offsets.size() - 1) * static_cast<size_t>(table_.dim()));
    SparseIds ids{std::span(column.ids), column.offsets, {}};
    if (options_.max_norm) ids.weights = column.weights;
    fused_safe_embedding_lookup_sparse(table_, ids, options_, pass_, workspace_, out_);
  }
  void backward(std::span<const float> out_gradient) override {
    gradient_ = lookup_gradient(pass_, out_gradient, workspace_);
  }
  std::span<const float> output() const override { return out_; }
  std::span<const int64_t> gradient_rows() const override { return gradient_.rows; }
  std::span<const float> gradient_values() const override { return gradient_.values; }

 private:
  const LocalTable table_;
  const LookupOptions options_;
  LookupPass pass_;
  LookupWorkspace workspace_;
  std::vector<float> out_;
  RowGradients gradient_;  // lives in the workspace
};

}  // namespace

std::unique_ptr<LookupPeer> fused_peer(std::span<const float> table, int64_t dim, Combiner combiner,
                                       std::optional<float> max_norm, int threads) {
  return std::make_unique<FusedPeer>(table, dim, combiner, max_norm, threads);
}

}  // namespace embers
