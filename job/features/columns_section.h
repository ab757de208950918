#pragma once

#include <vector>

#include "job/document/document.h"
#include "job/features/feature.h"
#include "job/features/input_column.h"

namespace embers::job {

// [columns] over the features of the job.
std::vector<InputColumn> read_input_columns(const toml::table& table, const std::vector<Feature>& features,
                                            KnownKeys* known_keys);

}  // namespace embers::job
