#include "job/sections/specs.h"

namespace embers::job {
namespace {

ScheduleSpec read_schedule(Section section) {
  ScheduleSpec spec;
  section.read("name", spec.name);
  if (spec.name.empty()) section.fail_at("name", "needs a 'name'");
  section.read("boundaries", spec.boundaries);
  section.read("values", spec.values);
  spec.params = section.read_params();
  return spec;
}

}  // namespace

template <>
UpdateRuleSpec read_spec<UpdateRuleSpec>(Section section) {
  UpdateRuleSpec spec;
  section.read("name", spec.name);
  if (const toml::node* const schedule = section.find("schedule")) {
    const toml::table* const table = schedule->as_table();
    if (table == nullptr)
      section.fail_at("schedule", "'schedule' must be a table { name = ..., parameters }");
    spec.schedule = read_schedule(section.below(*table, section.title() + " 'schedule'", "schedule"));
  }
  spec.params = section.read_params();
  return spec;
}

}  // namespace embers::job
