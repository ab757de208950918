#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "schema/ids.h"

namespace embers::python {

// The unique keys of many lists of the same length, which a helper's thread finds. Made, used and destroyed
// with the GIL.
class UniqueColumns {
 public:
  // What the helper's thread finds. Needs no GIL.
  struct Found;

  // `columns`: see KeyList. Returns at once.
  explicit UniqueColumns(const pybind11::list& columns);
  ~UniqueColumns();  // waits for the helper, which reads the lists
  UniqueColumns(const UniqueColumns&) = delete;
  UniqueColumns& operator=(const UniqueColumns&) = delete;

  size_t columns() const;
  size_t size() const;  // of each
  bool are_strings(size_t column) const;
  // Of each column, as unique_of() has them. Waits.
  pybind11::list keys() const;
  // int32 (columns, n): the place of each key among the unique ones of its column. There once keys() has
  // returned.
  pybind11::object places() const;

  std::shared_ptr<const Found> found() const;

 private:
  struct Given;

  std::unique_ptr<Given> given_;
  std::shared_ptr<Found> found_;
};

// Waits. Any thread, without the GIL: the unique keys of each column.
std::vector<KeysView> wait_for(const UniqueColumns::Found& found);

void define_unique_columns(pybind11::module_& module);

}  // namespace embers::python
