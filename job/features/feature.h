#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/features/categorical.h"
#include "schema/ids.h"

namespace embers::job {

enum class Transform : uint8_t { kNone, kStandardize, kMinMax, kLog1p };

// What a model gets from a column or, if the model itself declares the feature (see derive.h), from another
// feature.
struct Feature {
  std::string name;
  std::string column;  // "" for a crossed feature
  bool categorical = true;
  KeyKind key_kind = KeyKind::kBytes;      // categorical: of the ids; kInt64 unless they are raw strings
  Transform transform = Transform::kNone;  // numeric
  // numeric: (x - a) / b, that is mean and std for standardize, min and max - min for minmax. log1p takes
  // max(x, 0).
  double a = 0, b = 1;
  std::string missing_key;       // categorical: id used for a missing value ...
  bool has_missing_key = false;  // ... or, without one, no id at all
  Categorical ids;               // categorical: how values become ids
  std::vector<Feature> crossed;  // of a crossed feature: its inputs, themselves not crossed
  std::string weights;           // categorical: float column with a weight for each value; "" for none
  // numeric, bucketized: used for a missing value, before the transform. Unless the job gives one: 0, or the
  // mean for standardize.
  double missing_number = 0;
};

}  // namespace embers::job
