#pragma once

#include "apps/op/op_json.h"
#include "schema/ids.h"
#include "schema/table_spec.h"

// Names with parameters, and keys, as several ops take them. Errors as in op_json.h.
namespace embers::op {

// The case's `name`, and `params`: an object of numbers, true or false; absent or null, it is empty; a null
// in it counts as not given.
InitializerSpec initializer_spec(const Json& the_case);
// With a `schedule` beside them, if there is one: {"name": .., "params": {..}}.
UpdateRuleSpec optimizer_spec(const Json& the_case);
// Its params may hold the lists boundaries and values.
ScheduleSpec schedule_spec(const Json& the_case);

// A finite double, rather than the float of number().
double exact_number(const Json& value, const std::string& place);

// Each element is a key: an integer (then all are int64 keys) or a string.
Keys keys_from(const std::vector<const Json*>& values, const std::string& place);

// The name of a row in a result.
std::string row_name(KeysView keys, size_t i);

}  // namespace embers::op
