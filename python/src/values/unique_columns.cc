#include "python/src/values/unique_columns.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

#include "base/errors.h"
#include "base/forks.h"
#include "python/src/calls/calls.h"
#include "python/src/calls/helpers.h"
#include "python/src/values/keys.h"
#include "python/src/values/places.h"

namespace embers::python {
namespace py = pybind11;

struct UniqueColumns::Given {
  std::vector<py::object> lists;
  std::deque<KeyList> columns;
  py::array_t<int32_t> places;
  uint64_t generation = fork_generation();
};

struct UniqueColumns::Found {
  std::vector<Places> columns;
  mutable std::mutex mutex;
  mutable std::condition_variable is_there;
  bool is_done = false;
  std::exception_ptr error;
};

namespace {

void wait_until_done(const UniqueColumns::Found& found) {
  std::unique_lock lock(found.mutex);
  found.is_there.wait(lock, [&] { return found.is_done; });
}

}  // namespace

std::vector<KeysView> wait_for(const UniqueColumns::Found& found) {
  wait_until_done(found);
  if (found.error) std::rethrow_exception(found.error);
  std::vector<KeysView> keys;
  for (const Places& column : found.columns) keys.push_back(column.unique.view());
  return keys;
}

UniqueColumns::UniqueColumns(const py::list& columns)
    : given_(std::make_unique<Given>()), found_(std::make_shared<Found>()) {
  for (const py::handle column : columns) {
    given_->lists.push_back(py::reinterpret_borrow<py::object>(column));
    given_->columns.emplace_back(given_->lists.back(), "a column of keys");
    if (given_->columns.back().size() != given_->columns.front().size())
      fail(ErrorCode::kInvalid, "columns must be equally long: {} and {} keys were given",
           given_->columns.front().size(), given_->columns.back().size());
  }
  given_->places = py::array_t<int32_t>({this->columns(), size()});
  // The helper has nothing of Python's to let go of: this object outlives its work.
  run_in_helper([found = found_, lists = &given_->columns, to = given_->places.mutable_data()]() mutable {
    std::exception_ptr error;
    try {
      for (const KeyList& list : *lists) {
        const Places& column = found->columns.emplace_back(places_of(list));
        to = std::copy(column.place.begin(), column.place.end(), to);
      }
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(found->mutex);
    found->error = error;
    found->is_done = true;
    found->is_there.notify_all();
  });
}

UniqueColumns::~UniqueColumns() {
  if (given_->generation != fork_generation()) {  // a forked child, which has no helper
    given_.release();                             // NOLINT: what it had is the parent's
    return;
  }
  const py::gil_scoped_release free;
  wait_until_done(*found_);
}

size_t UniqueColumns::columns() const { return given_->columns.size(); }

size_t UniqueColumns::size() const { return columns() == 0 ? 0 : given_->columns.front().size(); }

bool UniqueColumns::are_strings(size_t column) const { return given_->columns.at(column).are_strings(); }

py::list UniqueColumns::keys() const {
  const Call call(given_->generation);
  {
    const py::gil_scoped_release free;
    wait_for(*found_);
  }
  py::list keys;
  for (size_t c = 0; c < columns(); ++c)
    keys.append(unique_of(given_->lists[c], given_->columns[c], found_->columns[c]));
  return keys;
}

py::object UniqueColumns::places() const { return given_->places; }

std::shared_ptr<const UniqueColumns::Found> UniqueColumns::found() const { return found_; }

void define_unique_columns(py::module_& module) {
  py::class_<UniqueColumns>(
      module, "UniqueColumns",
      "unique() or unique_strings() of each of many lists of n keys, found by another thread "
      "while this one goes on.")
      .def(py::init<const py::list&>(), py::arg("columns"))
      .def("keys", &UniqueColumns::keys, "keys() -> list of unique keys\n\nOf each list. Waits.")
      .def_property_readonly(
          "places", &UniqueColumns::places,
          "int32 (columns, n): of each key among the unique ones. There when keys() has returned.");
}

}  // namespace embers::python
