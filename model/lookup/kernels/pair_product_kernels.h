#pragma once

#include <cstdint>
#include <span>

// DLRM's interaction, example by example, without libtorch: layers/pair_products.h and the Python package
// spread examples over threads, each in its way.
namespace embers {

struct FieldsShape {
  int64_t fields = 0, dim = 0;
  int64_t before = 0;  // floats of each example before its products, which are somebody else's
  int64_t pairs() const { return fields * (fields - 1) / 2; }
  int64_t width() const { return before + pairs(); }
};

// A field's rows of `dim` floats, one for each example, `stride` floats apart: fields need not lie together.
template <class Float>
struct FieldRows {
  Float* first = nullptr;
  int64_t stride = 0;
  Float* at(int64_t example) const { return first + example * stride; }
};
using FieldsIn = std::span<const FieldRows<const float>>;
using FieldsOut = std::span<const FieldRows<float>>;

// For the examples [begin, end) of x, `shape.fields` fields -> out [examples, before + F (F-1) / 2]: inner
// products of the pairs (1,0), (2,0), (2,1), ...
void pair_products(const FieldsShape& shape, int64_t begin, int64_t end, FieldsIn x, float* out);
// gradient [examples, before + F (F-1) / 2], x -> out, the gradients of x
void pair_products_gradient(const FieldsShape& shape, int64_t begin, int64_t end, const float* gradient,
                            FieldsIn x, FieldsOut out);

}  // namespace embers
