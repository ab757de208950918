#include "python/src/values/numeric.h"

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

struct Fields {
  Fields(const py::object& given) : values(floats_of(given, {-1, -1, -1}, "fields")) {
    const auto array = py::reinterpret_borrow<py::array>(given);
    examples = array.shape(0);
    shape = {array.shape(1), array.shape(2)};
  }
  // Rows of products may begin with what is not theirs.
  void take_width(const py::array& products, const char* what) {
    shape.before = products.shape(1) - shape.pairs();
    if (shape.before < 0)
      fail(ErrorCode::kInvalid, "{} has {} columns, but there are {} pairs", what, products.shape(1),
           shape.pairs());
  }
  std::span<const float> values;
  int64_t examples = 0;
  FieldsShape shape;
};

void products(const py::object& fields, const py::object& out, int threads) {
  Fields x(fields);
  const std::span<float> to = place_of(out, {x.examples, -1}, "out");
  x.take_width(py::reinterpret_borrow<py::array>(out), "out");
  const py::gil_scoped_release free;
  in_parallel(x.examples, threads, [&](int64_t begin, int64_t end) {
    pair_products(x.shape, end - begin, x.values.data() + begin * x.shape.floats(),
                  to.data() + begin * x.shape.width());
  });
}

void products_gradient(const py::object& fields, const py::object& gradient, const py::object& out,
                       int threads) {
  Fields x(fields);
  const std::span<const float> from = floats_of(gradient, {x.examples, -1}, "gradient");
  x.take_width(py::reinterpret_borrow<py::array>(gradient), "gradient");
  const std::span<float> to = place_of(out, {x.examples, x.shape.fields, x.shape.dim}, "out");
  const py::gil_scoped_release free;
  in_parallel(x.examples, threads, [&](int64_t begin, int64_t end) {
    pair_products_gradient(x.shape, end - begin, from.data() + begin * x.shape.width(),
                           x.values.data() + begin * x.shape.floats(), to.data() + begin * x.shape.floats());
  });
}

}  // namespace

void define_numeric(py::module_& module) {
  module.def("pair_products", &products, py::arg("fields"), py::arg("out"), py::arg("threads") = 1,
             "pair_products(fields float32 (n, fields, dim), out float32 (n, any + fields * (fields - 1) / "
             "2), threads)\n\n"
             "Products are written to the last columns.");
  module.def("pair_products_gradient", &products_gradient, py::arg("fields"), py::arg("gradient"),
             py::arg("out"), py::arg("threads") = 1,
             "pair_products_gradient(fields, gradient of `out` of pair_products, out in the shape of fields, "
             "threads)");
  module.def("tune_malloc", &tune_malloc,
             "Makes malloc keep large blocks, which otherwise cost page faults each time.");
}

}  // namespace embers::python
