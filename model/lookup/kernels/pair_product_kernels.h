#pragma once

#include <cstdint>

// DLRM's interaction, example by example, without libtorch: layers/pair_products.h and the Python package
// spread examples over threads, each in its way.
namespace embers {

struct FieldsShape {
  int64_t fields = 0, dim = 0;
  int64_t before = 0;  // floats of each example before its products, which are somebody else's
  int64_t floats() const { return fields * dim; }
  int64_t pairs() const { return fields * (fields - 1) / 2; }
  int64_t width() const { return before + pairs(); }
};

// x [examples, F, D] -> out [examples, before + F (F-1) / 2]: inner products of the pairs (1,0), (2,0),
// (2,1), ...
void pair_products(const FieldsShape& shape, int64_t examples, const float* x, float* out);
// gradient [examples, before + F (F-1) / 2], x [examples, F, D] -> out [examples, F, D]
void pair_products_gradient(const FieldsShape& shape, int64_t examples, const float* gradient, const float* x,
                            float* out);

}  // namespace embers
