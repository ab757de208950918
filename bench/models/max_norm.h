#pragma once

#include <nlohmann/json.hpp>

namespace embers {

// What max_norm costs in training: the time of 26 columns of dim 16, batch 2048, as dnn's input, with a
// max_norm that clips half of the rows, over that of the same columns without. A column's time is that of the
// whole lookup engine: ids to unique keys and places (`dedupe` of the reports), rows to bags, and the gradients
// of bags back to rows (`combine`). `combine_ratio` leaves dedupe out. One point with one id a column and one
// with 1 to 20, each with medians over `rounds` and medians of the ratios of neighbouring measurements.
nlohmann::json measure_max_norm(int rounds);

}  // namespace embers
