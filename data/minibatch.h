#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/ids.h"

namespace embers::data {

// What a model sees of the data: derived from the job's [data] and [features], the same in every process.
struct CategoricalFeature {
  std::string name;
  KeyKind key_kind = KeyKind::kBytes;
  int64_t buckets = 0;    // ids are 0 .. buckets-1; 0: any keys
  bool weighted = false;  // Ids::weights are there
};
struct FeatureSchema {
  std::vector<std::string> numeric;             // order of the columns of Minibatch::numeric
  std::vector<CategoricalFeature> categorical;  // order of Minibatch::ids
  // Index of a categorical feature, or -1.
  int categorical_index(const std::string& name) const;
};

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
