#include "python/src/values/numeric.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "base/tune_malloc.h"
#include "model/lookup/kernels/pair_product_kernels.h"
#include "python/src/values/floats.h"

namespace embers::python {
namespace py = pybind11;
namespace {

constexpr int64_t kGrain = 256;  // examples that are worth a thread

// part(begin, end) for all of [0, examples), by so many threads.
void in_parallel(int64_t examples, int threads, const std::function<void(int64_t, int64_t)>& part) {
  const int64_t parts = std::clamp<int64_t>(examples / kGrain, 1, std::max(threads, 1));
  std::vector<std::thread> others;
  for (int64_t i = 1; i < parts; ++i)
    others.emplace_back(part, examples * i / parts, examples * (i + 1) / parts);
  part(0, examples / parts);
  for (std::thread& other : others) other.join();
}

// The parts of an example's fields, in one order: arrays of shape (n, fields of the part, dim).
struct Fields {
  explicit Fields(const std::vector<py::array>& parts) {
    if (parts.empty()) fail(ErrorCode::kInvalid, "there are no fields");
    for (const py::array& part : parts) {
      const std::span<const float> values = floats_of(part, {examples, -1, shape.dim}, "fields");
      examples = part.shape(0);
      shape.dim = part.shape(2);
      shape.fields += part.shape(1);
      add_rows_of(part, values.data(), rows);
    }
  }
  // Rows of products may begin with what is not theirs.
  void take_width(const py::array& products, const char* what) {
    shape.before = products.shape(1) - shape.pairs();
    if (shape.before < 0)
      fail(ErrorCode::kInvalid, "{} has {} columns, but there are {} pairs", what, products.shape(1),
           shape.pairs());
  }
  template <class Float>
  static void add_rows_of(const py::array& part, Float* values, std::vector<FieldRows<Float>>& rows) {
    for (py::ssize_t f = 0; f < part.shape(1); ++f)
      rows.push_back({values + f * part.shape(2), part.shape(1) * part.shape(2)});
  }

  int64_t examples = -1;
  FieldsShape shape{0, -1};
  std::vector<FieldRows<const float>> rows;
};

void products(const std::vector<py::array>& fields, const py::array& out, int threads) {
  Fields x(fields);
  const std::span<float> to = place_of(out, {x.examples, -1}, "out");
  x.take_width(out, "out");
  const py::gil_scoped_release free;
  in_parallel(x.examples, threads,
              [&](int64_t begin, int64_t end) { pair_products(x.shape, begin, end, x.rows, to.data()); });
}

void products_gradient(const std::vector<py::array>& fields, const py::array& gradient,
                       const std::vector<py::array>& out, int threads) {
  Fields x(fields);
  const std::span<const float> from = floats_of(gradient, {x.examples, -1}, "gradient");
  x.take_width(gradient, "gradient");
  if (out.size() != fields.size())
    fail(ErrorCode::kInvalid, "there are {} parts of fields, but places for {}", fields.size(), out.size());
  std::vector<FieldRows<float>> to;
  for (size_t i = 0; i < out.size(); ++i) {
    const std::span<float> place = place_of(out[i], {x.examples, fields[i].shape(1), x.shape.dim}, "out");
    Fields::add_rows_of(out[i], place.data(), to);
  }
  const py::gil_scoped_release free;
  in_parallel(x.examples, threads, [&](int64_t begin, int64_t end) {
    pair_products_gradient(x.shape, begin, end, from.data(), x.rows, to);
  });
}

}  // namespace

void define_numeric(py::module_& module) {
  module.def(
      "pair_products", &products, py::arg("fields"), py::arg("out"), py::arg("threads") = 1,
      "pair_products(fields: list of float32 (n, fields of the part, dim), out float32 (n, any + fields * "
      "(fields - 1) / 2), threads)\n\n"
      "Products are written to the last columns.");
  module.def("pair_products_gradient", &products_gradient, py::arg("fields"), py::arg("gradient"),
             py::arg("out"), py::arg("threads") = 1,
             "pair_products_gradient(fields, gradient of `out` of pair_products, out as fields, "
             "threads)");
  module.def("tune_malloc", &tune_malloc,
             "Makes malloc keep large blocks, which otherwise cost page faults each time.");
}

}  // namespace embers::python
