#include "python/src/jobs/job_reader.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "base/errors.h"
#include "python/src/calls/calls.h"
#include "python/src/values/floats.h"

namespace embers::python {
namespace py = pybind11;
namespace {

// Ids of a feature as Python has them: string keys in fields of one width, as NumPy's arrays of bytes. NumPy
// takes zeros at an end for padding, and one long key makes all fields long, so there are keys for which
// `fields` is empty and Python gets a list.
struct Feature {
  size_t width = 0;
  std::string fields;
};

Feature fields_of(const Keys& keys) {
  Feature feature;
  const KeysView view = keys.view();
  if (view.kind != KeyKind::kBytes || view.empty()) return feature;
  size_t width = 1;
  for (size_t i = 0; i < view.size(); ++i) {
    const std::string_view key = view.bytes_at(i);
    if (!key.empty() && key.back() == '\0') return feature;
    width = std::max(width, key.size());
  }
  constexpr size_t kSmall = size_t{1} << 20;
  if (width * view.size() > std::max(kSmall, 16 * view.bytes.size())) return feature;
  feature.width = width;
  feature.fields.assign(width * view.size(), '\0');
  for (size_t i = 0; i < view.size(); ++i) {
    const std::string_view key = view.bytes_at(i);
    std::copy(key.begin(), key.end(), feature.fields.data() + i * width);
  }
  return feature;
}

// A decoded minibatch. Constant; arrays are views of it.
class Records {
 public:
  Records(data::Minibatch minibatch, data::FeatureSchema schema)
      : minibatch_(std::move(minibatch)), schema_(std::move(schema)) {
    for (const Ids& ids : minibatch_.ids) features_.push_back(fields_of(ids.keys));
  }

  int64_t examples() const { return minibatch_.examples; }
  int64_t skipped() const { return minibatch_.skipped; }
  static py::array numeric(const std::shared_ptr<const Records>& self) {
    return view(self->minibatch_.numeric,
                {self->examples(), static_cast<py::ssize_t>(self->schema_.numeric.size())}, self, true);
  }
  static py::object labels(const std::shared_ptr<const Records>& self) {
    if (self->minibatch_.labels.empty() && self->examples() > 0) return py::none();
    return view(self->minibatch_.labels, {self->examples()}, self, true);
  }
  static py::array records(const std::shared_ptr<const Records>& self) {
    return of(std::span<const uint64_t>(self->minibatch_.records), self);
  }

  // (keys, offsets, weights or None)
  static py::tuple ids(const std::shared_ptr<const Records>& self, size_t feature) {
    const Ids& ids = self->minibatch_.ids.at(feature);
    const py::array offsets = of(std::span<const int64_t>(ids.offsets), self);
    py::object weights = py::none();
    if (!ids.weights.empty())
      weights = view(ids.weights, {static_cast<py::ssize_t>(ids.weights.size())}, self, true);
    return py::make_tuple(self->keys(feature, self), offsets, weights);
  }

 private:
  py::object keys(size_t feature, const std::shared_ptr<const Records>& self) const {
    const KeysView keys = minibatch_.ids[feature].keys.view();
    if (keys.kind == KeyKind::kInt64) return of(keys.ints, self);
    const Feature& found = features_[feature];
    if (found.width > 0)
      return py::array(py::dtype(fmt::format("S{}", found.width)), {keys.size()}, {found.width},
                       found.fields.data(), base(self));
    py::list list(keys.size());
    for (size_t i = 0; i < keys.size(); ++i)
      list[i] = py::bytes(keys.bytes_at(i).data(), keys.bytes_at(i).size());
    return list;
  }

  static py::capsule base(const std::shared_ptr<const Records>& self) {
    return {new std::shared_ptr<const Records>(self),
            [](void* held) { delete static_cast<std::shared_ptr<const Records>*>(held); }};
  }
  template <class T>
  static py::array of(std::span<const T> values, const std::shared_ptr<const Records>& self) {
    return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data(), base(self));
  }

  const data::Minibatch minibatch_;
  const data::FeatureSchema schema_;
  std::vector<Feature> features_;  // by feature, as Minibatch::ids
};

// One minibatch that is read, or will be.
struct Reading {
  uint64_t epoch, index;
  Promised<std::shared_ptr<const Records>> promised;
};

// Reads what it is asked for, one after the other, on a helper's thread.
class Reader : public std::enable_shared_from_this<Reader> {
 public:
  Reader(std::shared_ptr<const data::Dataset> dataset, bool shuffle)
      : schema_(dataset->job().feature_schema()),
        reader_(data::MinibatchReader::make(std::move(dataset), shuffle)) {}

  std::shared_ptr<Reading> start(uint64_t epoch, uint64_t index) {
    auto reading = std::make_shared<Reading>();
    reading->epoch = epoch;
    reading->index = index;
    const std::lock_guard lock(mutex_);
    asked_.push_back(reading);
    if (!std::exchange(reads_, true)) run_in_helper([self = shared_from_this()] { self->read_all(); });
    return reading;
  }

 private:
  void read_all() {
    for (;;) {
      std::shared_ptr<Reading> next;
      {
        const std::lock_guard lock(mutex_);
        if (asked_.empty()) {
          reads_ = false;
          return;
        }
        next = std::move(asked_.front());
        asked_.pop_front();
      }
      if (next.use_count() == 1) continue;  // nobody waits for it any more
      try {
        next->promised.keep(
            std::make_shared<const Records>(reader_->read(next->epoch, next->index), schema_));
      } catch (...) {
        next->promised.keep(std::nullopt, std::current_exception());
      }
    }
  }

  const data::FeatureSchema schema_;
  const std::unique_ptr<data::MinibatchReader> reader_;  // of the one thread that reads
  std::mutex mutex_;
  bool reads_ = false;
  std::deque<std::shared_ptr<Reading>> asked_;
};

std::shared_ptr<const Records> wait(Reading& reading) {
  const Call call(fork_generation());
  wait_in_slices(std::nullopt, [&](auto slice) { return reading.promised.wait_for(slice); });
  if (reading.promised.error) std::rethrow_exception(reading.promised.error);
  return *reading.promised.result;
}

}  // namespace

py::object reader_object(std::shared_ptr<const data::Dataset> dataset, bool shuffle) {
  return py::cast(std::make_shared<Reader>(std::move(dataset), shuffle));
}

void define_job_reader(py::module_& module) {
  py::class_<Records, std::shared_ptr<Records>>(module, "Records",
                                                "A decoded minibatch. Its arrays are views, without a copy.")
      .def_property_readonly("examples", &Records::examples)
      .def_property_readonly("skipped", &Records::skipped, "Bad records that were left out.")
      .def_property_readonly(
          "numeric", [](const std::shared_ptr<Records>& r) { return Records::numeric(r); },
          "float32 (examples, numeric features)")
      .def_property_readonly(
          "labels", [](const std::shared_ptr<Records>& r) { return Records::labels(r); },
          "float32 (examples,), or None")
      .def_property_readonly(
          "records", [](const std::shared_ptr<Records>& r) { return Records::records(r); },
          "uint64 (examples,): number of each in the data")
      .def(
          "ids", [](const std::shared_ptr<Records>& r, size_t feature) { return Records::ids(r, feature); },
          py::arg("feature"),
          "ids(feature) -> (keys, offsets, weights)\n\nOf the i-th categorical feature: int64, or an array "
          "or list of "
          "bytes; int64 (examples + 1,); float32 or None.");
  py::class_<Reading, std::shared_ptr<Reading>>(module, "Reading", "A minibatch that is being read.")
      .def(
          "wait", [](Reading& reading) { return std::const_pointer_cast<Records>(wait(reading)); },
          "wait() -> Records\n\nRaises BadInput naming file and line of a bad record.");
  py::class_<Reader, std::shared_ptr<Reader>>(module, "Reader",
                                              "Reads minibatches on another thread, in the order "
                                              "in which they are asked for.")
      .def("start", &Reader::start, py::arg("epoch"), py::arg("number"), "start(epoch, number) -> Reading");
}

}  // namespace embers::python
