#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/table_spec.h"

namespace embers::job {

// Which features make up the input of a model with an InputLayer, and how: the dense columns of
// tf.feature_column, see model/columns/feature_column.h. The defaults are TensorFlow's.
struct InputColumn {
  enum class Kind : uint8_t { kNumeric, kEmbedding, kIndicator, kSharedEmbedding };
  std::string name;  // of the entry
  Kind kind = Kind::kEmbedding;
  std::vector<std::string> features;  // one, or several that share a table
  // embeddings
  int64_t dimension = 0;
  std::string combiner = "mean";  // or sum, sqrtn
  std::optional<InitializerSpec> initializer;
  double max_norm = 0;     // 0: none
  bool do_fusion = false;  // has no effect: all columns are fused
  std::string table;  // kSharedEmbedding: shared_embedding_collection_name; "": made of the features' names
};

}  // namespace embers::job
