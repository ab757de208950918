#pragma once

#include <torch/types.h>

#include <vector>

#include "model/layers/regularizer.h"
#include "schema/ids.h"

namespace embers {

class EmbeddingImpl;

// What an Embedding layer asks of the pass of a minibatch that it runs in: rows of its table, combined as its
// options say.
class RowSource {
 public:
  virtual ~RowSource() = default;

  // Rows of ids of the batch, which were looked up ahead if the layer declared their feature, or of any other
  // ids, which are looked up now: [examples, dim] with a combiner, else [ids, dim]. Offsets go from 0 to the
  // number of ids; kInvalid naming the table unless they ascend.
  virtual torch::Tensor lookup(const EmbeddingImpl& layer, const Ids& ids) = 0;

  // Ids of no feature; offsets as in Ids, not used without a combiner. weights: float32, one for each key, or
  // undefined; they get a gradient if they require one.
  struct Call {
    KeysView keys;
    std::vector<int64_t> offsets;
    torch::Tensor weights;
  };
  virtual torch::Tensor lookup(const EmbeddingImpl& layer, Call call) = 0;

  // Adds the penalty of a call's outputs to the loss.
  virtual void note_activity(const Regularizer& regularizer, const torch::Tensor& out) = 0;
};

}  // namespace embers
