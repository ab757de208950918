#include "python/src/values/numeric.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "base/tune_malloc.h"
#include "model/lookup/kernels/second_order_kernels.h"
#include "python/src/values/floats.h"

namespace embers::python {
namespace py = pybind11;
namespace {

constexpr int64_t kGrain = 256;  // examples that are worth a thread

// part(begin, end) over all of [0, size), by up to `threads` threads, each with at least `grain`.
void in_parallel(int64_t size, int64_t grain, int threads,
                 const std::function<void(int64_t, int64_t)>& part) {
  const int64_t parts = std::clamp<int64_t>(size / grain, 1, std::max(threads, 1));
  std::vector<std::thread> others;
  for (int64_t i = 1; i < parts; ++i) others.emplace_back(part, size * i / parts, size * (i + 1) / parts);
  part(0, size / parts);
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
  in_parallel(x.examples, kGrain, threads,
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
  in_parallel(x.examples, kGrain, threads, [&](int64_t begin, int64_t end) {
    pair_products_gradient(x.shape, begin, end, from.data(), x.rows, to);
  });
}

void second(const std::vector<py::array>& fields, const py::array& numbers, const py::array& factors,
            const py::array& out, const py::array& sums, const py::array& second, int threads) {
  const Fields x(fields);
  const py::ssize_t dim = x.shape.dim, count = factors.shape(0);
  const NumericFields numeric{count, floats_of(numbers, {x.examples, count}, "numbers").data(),
                              floats_of(factors, {count, dim}, "factors").data()};
  float* const to = place_of(out, {x.examples, x.shape.fields + count, dim}, "out").data();
  float* const of_sums = place_of(sums, {x.examples, dim}, "sums").data();
  float* const of_pairs = place_of(second, {x.examples, 1}, "second").data();
  const py::gil_scoped_release free;
  in_parallel(x.examples, kGrain, threads, [&](int64_t begin, int64_t end) {
    second_order(x.shape, begin, end, x.rows, numeric, to, of_sums, of_pairs);
  });
}

void second_gradient(const py::array& of_fields, const py::array& of_second, const py::array& fields,
                     const py::array& sums, const py::array& numbers, const py::array& out,
                     const py::array& of_factors, int threads) {
  const std::span<const float> all = floats_of(fields, {-1, -1, -1}, "fields");
  const int64_t examples = fields.shape(0), dim = fields.shape(2), count = of_factors.shape(0);
  const Shape shape{examples, fields.shape(1), dim};
  const NumericFields numeric{count, floats_of(numbers, {examples, count}, "numbers").data(), nullptr};
  const SecondOrderGradients given{floats_of(of_fields, shape, "of_fields").data(),
                                   floats_of(of_second, {examples, 1}, "of_second").data(), 1};
  const float* const of_sums = floats_of(sums, {examples, dim}, "sums").data();
  float* const to = place_of(out, shape, "out").data();
  const std::span<float> sum = place_of(of_factors, {count, dim}, "of_factors");
  if (count > shape[1])
    fail(ErrorCode::kInvalid, "there are factors of {} numbers, but only {} fields", count, shape[1]);
  const py::gil_scoped_release free;
  // Sums over the examples of a grain, then over grains, whichever thread has them.
  const int64_t grains = (examples + kGrain - 1) / kGrain;
  std::vector<float> of_grains(static_cast<size_t>(grains) * sum.size());
  in_parallel(grains, 1, threads, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g)
      second_order_gradient({shape[1] - count, dim}, g * kGrain, std::min(examples, (g + 1) * kGrain), given,
                            all.data(), of_sums, numeric, to,
                            of_grains.data() + static_cast<size_t>(g) * sum.size());
  });
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (size_t i = 0; i < of_grains.size(); ++i) sum[i % sum.size()] += of_grains[i];
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
  module.def(
      "second_order", &second, py::arg("fields"), py::arg("numbers"), py::arg("factors"), py::arg("out"),
      py::arg("sums"), py::arg("second"), py::arg("threads") = 1,
      "second_order(fields: list of float32 (n, fields of the part, dim), numbers (n, k), factors (k, dim), "
      "out (n, all fields, dim), sums (n, dim), second (n, 1), threads)");
  module.def(
      "second_order_gradient", &second_gradient, py::arg("of_fields"), py::arg("of_second"),
      py::arg("fields"), py::arg("sums"), py::arg("numbers"), py::arg("out"), py::arg("of_factors"),
      py::arg("threads") = 1,
      "second_order_gradient(gradients of `out` and `second`, what second_order() wrote, numbers, out as "
      "fields, of_factors (k, dim), threads)");
  module.def("tune_malloc", &tune_malloc,
             "Makes malloc keep large blocks, which otherwise cost page faults each time.");
}

}  // namespace embers::python
