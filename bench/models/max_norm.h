#pragma once

#include <nlohmann/json.hpp>

namespace embers {

// What max_norm costs in training: the share of the embeddings in training steps (`combine` of the reports)
// of 26 columns of dim 16, batch 2048, as dnn's input, with a max_norm that clips half of the rows, over that
// of the same columns without. One point with one id a column and one with 1 to 20, each with medians over
// `rounds` and the median of the ratios of neighbouring measurements.
nlohmann::json measure_max_norm(int rounds);

}  // namespace embers
