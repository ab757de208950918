#pragma once

#include <vector>

#include "job/features/data_section.h"
#include "job/features/feature.h"

namespace embers::job {

// Columns of the Criteo click logs, as format = "criteo" implies them: label, I1..I13 (counts, some missing,
// a few negative), C1..C26 (hashed strings, some missing).
std::vector<Column> criteo_columns();

// What a job without [features] makes of them: numeric log1p(max(x, 0)), with 0 for a missing value; and
// string keys, with the key "" for a missing value, so that every example has exactly one id per feature.
std::vector<Feature> criteo_features();

}  // namespace embers::job
