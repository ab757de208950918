#pragma once

#include <vector>

#include "job/document/document.h"
#include "job/features/data_section.h"
#include "job/features/feature.h"

namespace embers::job {

// `table` is [features], or nullptr for the default: every int and string column a categorical feature, every
// float column a numeric one.
std::vector<Feature> read_features(const toml::table* table, const DataSection& data, KnownKeys* known_keys);

}  // namespace embers::job
