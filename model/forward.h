#pragma once

#include <torch/types.h>

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "model/discover.h"
#include "model/layers/model.h"
#include "model/layers/row_source.h"
#include "model/lookup/combine_all.h"
#include "model/step.h"

namespace embers {

// The rows of one minibatch while a model runs on it. One table has one BET: a leaf tensor over the pulled
// rows, which every call of every layer on the table indexes into, so that autograd adds up the gradients of
// all calls. Ids that were not deduped ahead get a leaf of their own for the call. Binds itself to all layers
// while it lives.
class MinibatchRows final : public RowSource {
 public:
  // All references outlive it; bets[i] holds the rows of lookups.tables[i]. Only one MinibatchRows may use
  // `memory` at a time. kInternal unless sizes fit.
  MinibatchRows(const Discovery& model, const data::Minibatch& minibatch, const Lookups& lookups,
                std::vector<FloatBuffer> bets, const ModelRunner::LatePull& late, CombineMemory& memory,
                bool training);
  ~MinibatchRows() override;
  MinibatchRows(const MinibatchRows&) = delete;
  MinibatchRows& operator=(const MinibatchRows&) = delete;

  // Finds ids of the minibatch by their address: all calls on ids that were deduped ahead are combined
  // together, by the first of them. Others are looked up as below.
  torch::Tensor lookup(const EmbeddingImpl& layer, const Ids& ids) override;
  // Keys for which the table already has rows are taken from there; the others are pulled late.
  torch::Tensor lookup(const EmbeddingImpl& layer, Call call) override;
  void note_activity(const Regularizer& regularizer, const torch::Tensor& out) override;

  // Leaves of each embedding table, by table id: the BET first (if any), then those of late calls in call
  // order.
  struct Leaf {
    KeysView keys;  // unique
    torch::Tensor bet;
    bool overwritten = false;  // with its rows as max_norm clips them
  };
  const std::vector<std::vector<Leaf>>& leaves() const { return leaves_; }

  // What the layers' regularizers add to the loss of the pass so far; undefined when there are none, and in
  // evaluation.
  torch::Tensor penalty() const;

  // What its combinations share: the time they took, and their gradients.
  CombinePass& pass() { return *pass_; }

 private:
  // Ids of one late call.
  struct Late {
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
  // Whether ids that were looked up ahead can be combined from the BET, and how.
  // Of a table whose rows max_norm clips: whether only its layers' prepared calls read what was pulled.
  bool may_overwrite(TableId table) const;
  bool can_combine(const Lookups::Inverse& inverse) const;
  CombineCall call_of(const Lookups::Inverse& inverse, size_t bet) const;
  void combine_prepared();
  torch::Tensor combine_late(const EmbeddingImpl& layer, TableId table, KeysView keys, Late& call,
                             const torch::Tensor& weights);
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
  std::deque<Late> calls_;                     // never moved: places point into it
  const std::shared_ptr<CombinePass> pass_;    // expires what calls saved for the backward pass
};

// Runs the model's forward in training or evaluation mode. Whatever its code throws becomes an Error that
// names the model; embers' own errors pass.
torch::Tensor run_forward(Model& model, const std::string& name, const Batch& batch, bool training);

// Calls `run`; an exception of libtorch or of a user's code becomes kInvalid "model 'name': <stage>: <first
// line>".
void guard_user_code(const std::string& model, const char* stage, const std::function<void()>& run);

}  // namespace embers
