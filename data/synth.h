#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace embers::data {

// Writes a click log in Criteo's format, out_dir/train.txt and out_dir/test.txt (the last tenth of the rows):
// label, 13 counts (log-normal, some missing), 26 hashed strings (Zipf, vocabularies of 10 to 300000, some
// missing), separated by tabs. Labels are drawn from a planted teacher: a logistic model over a weight per
// id, a few pairs of columns and the counts; about a quarter are 1. The teacher is always the same; the seed
// draws the rows. The bytes are a pure function of (rows, seed), on every platform. Memory does not grow with
// the rows. `progress` is told, now and then and at the end, how many rows are written. Errors: kInvalid for
// fewer than 10 rows, or a folder that cannot be written. Files appear when complete.
void write_criteo(uint64_t rows, uint64_t seed, const std::string& out_dir,
                  const std::function<void(uint64_t rows_done)>& progress = {});

}  // namespace embers::data
