#pragma once

#include <cstdint>

#include "model/lookup/kernels/pair_product_kernels.h"

// A factorization machine's second order, example by example, without libtorch. An example's fields are rows
// of `dim` floats: those of FieldsIn, then its numbers x[k], each times a vector of factors, which stand for
// fields of their own.
namespace embers {

struct NumericFields {
  int64_t count = 0;
  const float* values = nullptr;   // [examples, count]
  const float* factors = nullptr;  // [count, dim]
};

// For the examples [begin, end) of x, `shape.fields` fields ->
//   fields [examples, F + count, dim]: all fields, one after another
//   sums [examples, dim]: of an example's fields
//   second [examples]: inner products of all pairs of fields, added up: half the amount by which the square
//   of
//     the sum exceeds the sum of the squares
void second_order(const FieldsShape& shape, int64_t begin, int64_t end, FieldsIn x,
                  const NumericFields& numeric, float* fields, float* sums, float* second);

// What the gradient is made of; each covers all examples.
struct SecondOrderGradients {
  const float* fields;  // as `fields` above; null: zeros
  const float* second;  // [examples], `stride` apart; null: zeros
  int64_t stride;
};

// `fields` and `sums` as above -> out, the gradients of all fields, as `fields`; may be gradients.fields.
// Adds the gradients of the numeric fields' factors to of_factors [count, dim], example after example.
void second_order_gradient(const FieldsShape& shape, int64_t begin, int64_t end,
                           const SecondOrderGradients& gradients, const float* fields, const float* sums,
                           const NumericFields& numeric, float* out, float* of_factors);

}  // namespace embers
