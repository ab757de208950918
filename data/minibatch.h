#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/features/feature_schema.h"
#include "schema/ids.h"

namespace embers::data {

using job::CategoricalFeature;
using job::FeatureSchema;

// One decoded minibatch. Rows of data that policy `skip` left out are not in it.
struct Minibatch {
  uint64_t epoch = 0;
  uint64_t index = 0;          // identity within the epoch
  int64_t examples = 0;        // N
  int64_t skipped = 0;         // bad rows left out
  std::vector<float> numeric;  // N x |numeric|, row-major, transformed
  std::vector<Ids> ids;  // one per categorical feature, N examples each; then those that the model derives
  std::vector<float> labels;  // N, 0 or 1 (or the column's number for a float label); empty without a label
  std::vector<uint64_t> records;  // N, 0-based record number within the split, in file order
};

}  // namespace embers::data
