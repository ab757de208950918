#pragma once

#include <string>

#include "schema/table_spec.h"

namespace embers::job {

// What a program says of a table (`of`, for messages), each the value of the key of that name in
// [storage.tables]; "" leaves the spec as it is. kInvalid for other keys, or what is none of these values.
struct SaidOfTable {
  std::string initializer, optimizer, constraint;
  std::string partition = {}, dtype = {};  // names, without quotes
};
void read_said(const std::string& of, const SaidOfTable& said, TableSpec& table);

}  // namespace embers::job
