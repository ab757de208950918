#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "bench/harness/statistics.h"

namespace embers {

// What max_norm costs in training: the time of 26 columns of dim 16, batch 2048, one thread, as dnn's input,
// with a max_norm that clips half of the rows, over that of the same columns without. A column's time is that
// of the whole lookup engine: ids to unique keys and places (`dedupe` of the reports), rows to bags, and the
// gradients of bags back to rows (`combine`). `combine_ratio` leaves dedupe out. Columns have 1 to `most_ids`
// ids. First, scores and all gradients with max_norm are compared with those of rows clipped beforehand.
struct MaxNorm {
  nlohmann::json report;
  Estimate ratio;
};
MaxNorm measure_max_norm(int64_t most_ids, size_t rounds);

// Makes a row a little longer whose norm is so near to max_norm that rounding would decide whether it is
// clipped: the gradients of the two cases differ.
void keep_clear(float max_norm, std::span<float> row);

}  // namespace embers
