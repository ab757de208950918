#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <variant>
#include <vector>

#include "job/features/categorical.h"

namespace embers::data {

// How the values of a column become ids, as tf.feature_column's categorical columns make them: the same ids,
// bit for bit, so that tables trained there keep their meaning. Plain functions over the values of one
// example; the decoder calls them for features that the job file declares, derive() for those that a model
// declares.

// tf.strings.to_hash_bucket_fast: Fingerprint64 (FarmHash) modulo `buckets`. A number is hashed as its
// decimal string.
int64_t hash_bucket(std::string_view text, int64_t buckets);
int64_t hash_bucket(int64_t value, int64_t buckets);

// tf.feature_column.bucketized_column: how many of the ascending boundaries are <= x, that is i for x in
// [b[i-1], b[i]).
int64_t bucket_of(double x, std::span<const double> boundaries);

// A value that a column cannot take; what() says which and why.
class BadValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What one example holds: whole numbers, strings, or numbers (at most one, for bucketized). Missing values
// are left out.
using Values =
    std::variant<std::span<const int64_t>, std::span<const std::string_view>, std::span<const double>>;

// Appends the id of each value, job::kNoId included. Not for raw and crossed columns. BadValue for a value
// that an identity column without default_value cannot take.
void append_ids(const job::Categorical& column, const Values& values, std::vector<int64_t>& ids);

// Appends what a cross takes from one of its inputs: the Fingerprint64 of a raw string, else the number or
// id. BadValue as above.
void append_cross_terms(const job::Categorical& input, const Values& values, std::vector<uint64_t>& terms);

// Appends an id for each element of the Cartesian product of the inputs' terms, the last input varying
// fastest: tf.feature_column.crossed_column, that is tf.raw_ops.SparseCross with hashed output. Starting with
// hash_key, the terms are folded in, in the order of the inputs, and the result is taken modulo num_buckets.
// With `M` = 0xc6a4a7935bd1e995 and mix(x) = x ^ (x >> 47), one step from hash h and term t is
//   mix(mix((h ^ M ^ mix(t * M) * M) * M) * M)
// If an input has no values, there are no ids. BadValue when the product is larger than kMaxCrosses.
void append_crosses(const job::Categorical& column, std::span<const std::vector<uint64_t>> inputs,
                    std::vector<int64_t>& ids);
inline constexpr size_t kMaxCrosses = size_t{1} << 20;

}  // namespace embers::data
