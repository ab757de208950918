// The schedules of `embers op`; apps/command_line/op_help.h documents the case.
#include "apps/op/op.h"
#include "apps/op/op_specs.h"
#include "base/errors.h"
#include "storage/update_rules/schedule.h"

namespace embers::op {

Json schedule(const Json& the_case) {
  const auto schedule = storage::Schedule::make(schedule_spec(the_case), std::nullopt);
  const Json& steps = at(the_case, "steps");
  if (!steps.is_array()) fail(ErrorCode::kInvalid, "steps must be a list of whole numbers");
  Json rates = Json::array();
  for (const Json& step : steps) {
    const int64_t number = integer(step, "steps");
    if (number < 0) fail(ErrorCode::kInvalid, "steps contains {}: steps count from 0", number);
    rates.push_back(schedule.at(static_cast<uint64_t>(number)));
  }
  return {{"learning_rates", rates}};
}

}  // namespace embers::op
