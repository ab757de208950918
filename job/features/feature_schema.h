#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/ids.h"

namespace embers::job {

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

}  // namespace embers::job
