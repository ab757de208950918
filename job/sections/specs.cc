#include "job/sections/specs.h"

#include "job/sections/said.h"

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

NumberType number_type_named(const std::string& text) {
  for (const NumberType type : {NumberType::kFloat32, NumberType::kFloat16, NumberType::kBfloat16})
    if (text == name(type)) return type;
  fail(ErrorCode::kInvalid, "dtype must be float32, float16 or bfloat16, not '{}'", text);
}

}  // namespace

void read_said(const std::string& of, const SaidOfTable& said, TableSpec& table) {
  const auto read = [&](const char* key, const std::string& text, auto& spec) {
    if (text.empty()) return;
    const std::string place = std::string(kSaid) + of;
    const toml::table value = parse_value(key, text, place);
    Section section(value, "its", "storage.tables", nullptr);
    if (auto found = read_named<std::decay_t<decltype(spec)>>(section, key)) spec = std::move(*found);
    section.done();
  };
  read("initializer", said.initializer, table.initializer);
  read("optimizer", said.optimizer, table.update_rule);
  read("constraint", said.constraint, table.constraint);
  at_place(of, [&] {
    if (!said.partition.empty()) table.partition = partition_named(said.partition);
    if (!said.dtype.empty()) table.number_type = number_type_named(said.dtype);
  });
}

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
