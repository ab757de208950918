// The initializers of `embers op`; apps/command_line/op_help.h documents the case.
#include <algorithm>

#include "apps/op/op.h"
#include "apps/op/op_specs.h"
#include "base/errors.h"
#include "storage/initializers/initializer.h"

namespace embers::op {
namespace {

int64_t count(const Json& the_case, const char* key, int64_t low, int64_t otherwise) {
  if (!given(the_case, key)) return otherwise;
  const int64_t value = integer(at(the_case, key), key);
  if (value < low) fail(ErrorCode::kInvalid, "{} is {} but must be at least {}", key, value, low);
  return value;
}

}  // namespace

Json initializer(const Json& the_case) {
  const Flat flat = flatten(at(the_case, "keys"), "keys");
  if (flat.shape.size() != 1) fail(ErrorCode::kInvalid, "keys must be a list of keys");
  const Keys keys = keys_from(flat.values, "keys");
  const int64_t dim = count(the_case, "dim", 1, 0);
  if (dim == 0) fail(ErrorCode::kInvalid, "the case has no \"dim\": give the width of a row");
  if (static_cast<double>(dim) * static_cast<double>(std::max<size_t>(1, keys.size())) > kMostNumbers)
    fail(ErrorCode::kInvalid, "{} rows of dim {} are too many numbers for a result", keys.size(), dim);
  TableSpec table;
  table.name = given(the_case, "table") ? text(at(the_case, "table"), "table") : "";
  table.dim = static_cast<uint32_t>(dim);
  table.key_kind = keys.kind();
  table.input_dim = count(the_case, "input_dim", 0, 0);
  table.initializer = initializer_spec(the_case);
  const auto initializer =
      storage::Initializer::make(static_cast<uint64_t>(count(the_case, "seed", 0, 1)), table);
  std::vector<float> values(keys.size() * table.dim);
  initializer->fill(keys, values);
  Json rows = Json::object();
  for (size_t i = 0; i < keys.size(); ++i)
    rows[row_name(keys, i)] = nested(std::span(values).subspan(i * table.dim, table.dim), {{dim}});
  return {{"rows", rows}};
}

}  // namespace embers::op
