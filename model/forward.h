#pragma once

#include <torch/types.h>

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "model/discover.h"
#include "model/layers/embedding.h"
#include "model/layers/model.h"
#include "model/step.h"

namespace embers {

struct CombinePass;

// The rows of one minibatch while a model runs on it. One table has one BET: a leaf tensor over the pulled
// rows, which every call of every layer on the table indexes into, so that autograd adds up the gradients of
// all calls. Ids that were not deduped ahead get a leaf of their own for the call. Binds itself to all layers
// while it lives.
class EmbeddingImpl::Rows {
 public:
  // All references outlive it; bets[i] holds the rows of lookups.tables[i]. kInternal unless their sizes fit.
  Rows(const Discovery& model, const data::Minibatch& minibatch, const Lookups& lookups,
       std::vector<FloatBuffer> bets, const ModelRunner::LatePull& late, bool training);
  ~Rows();
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  // Where the rows of one call are. `ids` may be used while `pass` is not expired.
  struct Place {
    torch::Tensor bet;
    RaggedPositions ids;
    std::weak_ptr<CombinePass> pass;
  };
  // Finds ids of the minibatch by their address; others are looked up as below.
  Place find(const EmbeddingImpl& layer, const Ids& ids);
  // Keys among those the table already has rows for are taken from there, the others pulled late.
  Place find(const EmbeddingImpl& layer, KeysView keys, std::vector<int64_t> offsets,
             std::vector<float> weights = {});

  // What a call on ids that were deduped ahead gives: all such calls with a combiner and without max_norm are
  // combined together, by the first of them. Undefined for others.
  torch::Tensor combined(const EmbeddingImpl& layer, const Ids& ids);

  // Leaves of each embedding table, by table id: the BET first (if any), then those of late calls in call
  // order.
  struct Leaf {
    KeysView keys;  // unique
    torch::Tensor bet;
  };
  const std::vector<std::vector<Leaf>>& leaves() const { return leaves_; }

  // Adds the penalty of a call's outputs to penalty().
  void note_activity(const Regularizer& regularizer, const torch::Tensor& out);
  // What the layers' regularizers add to the loss of the pass so far; undefined when there are none, and in
  // evaluation.
  torch::Tensor penalty() const;

  // Spent so far on combining rows and on its gradient.
  double combine_seconds() const;

 private:
  // Ids of one late call.
  struct Call {
    std::vector<int32_t> position;
    std::vector<int64_t> offsets;
    std::vector<float> weights;
    Keys unique;
  };
  // All keys of a table with rows so far, and where these are.
  struct Known {
    KeyIndex index;
    std::vector<const float*> rows;
  };
  void combine_prepared();
  size_t layer_index(const EmbeddingImpl& layer) const;
  const Lookups::Inverse* prepared(size_t layer, const Ids& ids) const;
  Known& known(TableId table, KeyKind kind);
  FloatBuffer late_bet(const EmbeddingImpl& layer, TableId table, const Keys& unique);
  std::vector<torch::Tensor> touched(TableId table) const;
  void add_leaf(TableId table, KeysView keys, FloatBuffer rows, int64_t dim);

  const Discovery& model_;
  const data::Minibatch& minibatch_;
  const Lookups& lookups_;
  const ModelRunner::LatePull& late_;
  const bool training_;
  std::vector<std::vector<Leaf>> leaves_;
  std::vector<std::unique_ptr<Known>> known_;  // by table id; made by a table's first late call
  torch::Tensor activity_;                     // penalties of outputs so far; undefined before the first
  std::vector<torch::Tensor> combined_;        // by lookups_.inverses; empty before the first call
  std::deque<Call> calls_;                     // never moved: places point into it
  const std::shared_ptr<CombinePass> pass_;    // expires what calls saved for the backward pass
};

// Runs the model's forward in training or evaluation mode. Whatever its code throws becomes an Error that
// names the model; embers' own errors pass.
torch::Tensor run_forward(Model& model, const std::string& name, const Batch& batch, bool training);

// Calls `run`; an exception of libtorch or of a user's code becomes kInvalid "model 'name': <stage>: <first
// line>".
void guard_user_code(const std::string& model, const char* stage, const std::function<void()>& run);

}  // namespace embers
