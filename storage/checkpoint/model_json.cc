#include "storage/checkpoint/model_json.h"

#include "storage/update_rules/update_rule.h"

namespace embers::storage {
namespace {

using nlohmann::json;

template <class Spec>
json spec_to_json(const Spec& spec) {
  return {{"name", spec.name}, {"params", spec.params}};
}

template <class Spec>
Spec spec_from_json(const json& j) {
  Spec spec;
  spec.name = j.at("name");
  spec.params = j.at("params").get<std::map<std::string, double>>();
  return spec;
}

json rule_to_json(const UpdateRuleSpec& rule) {
  json j = spec_to_json(rule);
  const ScheduleSpec& schedule = rule.schedule;
  if (schedule.name.empty()) return j;
  j["schedule"] = spec_to_json(schedule);
  j["schedule"]["boundaries"] = schedule.boundaries;
  j["schedule"]["values"] = schedule.values;
  return j;
}

UpdateRuleSpec rule_from_json(const json& j) {
  auto rule = spec_from_json<UpdateRuleSpec>(j);
  if (!j.contains("schedule")) return rule;
  const json& schedule = j.at("schedule");
  rule.schedule = spec_from_json<ScheduleSpec>(schedule);
  rule.schedule.boundaries = schedule.at("boundaries").get<std::vector<double>>();
  rule.schedule.values = schedule.at("values").get<std::vector<double>>();
  return rule;
}

json slots_of(const TableSpec& table) {
  const auto rule = UpdateRule::make(table.update_rule);
  json names = json::array();
  for (const UpdateRule::Slot& slot : rule->slots()) names.push_back(slot.name);
  return names;
}

}  // namespace

json table_to_json(const TableSpec& table) {
  return {{"name", table.name},
          {"dim", table.dim},
          {"key_kind", name(table.key_kind)},
          {"input_dim", table.input_dim},
          {"initializer", spec_to_json(table.initializer)},
          {"optimizer", rule_to_json(table.update_rule)},
          {"constraint", spec_to_json(table.constraint)},
          {"slots", slots_of(table)},
          {"dtype", embers::name(table.number_type)},
          {"rounding", embers::name(table.rounding)},
          {"partition", embers::name(table.partition)},
          {"accumulation", table.accumulation == Accumulation::kSum ? "sum" : "last"}};
}

TableSpec table_from_json(const json& j) {
  TableSpec table;
  table.name = j.at("name");
  table.dim = j.at("dim");
  table.key_kind = j.at("key_kind") == name(KeyKind::kInt64) ? KeyKind::kInt64 : KeyKind::kBytes;
  table.input_dim = j.at("input_dim");
  table.initializer = spec_from_json<InitializerSpec>(j.at("initializer"));
  table.update_rule = rule_from_json(j.at("optimizer"));
  table.constraint = spec_from_json<ConstraintSpec>(j.at("constraint"));
  table.accumulation = j.at("accumulation") == "sum" ? Accumulation::kSum : Accumulation::kLast;
  const std::string type = j.value("dtype", "float32");  // checkpoints of older versions have none
  for (const auto t : {NumberType::kFloat16, NumberType::kBfloat16})
    if (type == embers::name(t)) table.number_type = t;
  if (j.value("rounding", "") == embers::name(Rounding::kStochastic)) table.rounding = Rounding::kStochastic;
  if (j.value("partition", "") == embers::name(Partition::kEncoding)) table.partition = Partition::kEncoding;
  return table;
}

json dense_to_json(const DenseParam& param) {
  return {{"name", param.name}, {"shape", param.shape}, {"buffer", param.buffer}};
}

DenseParam dense_from_json(const json& j) {
  return {j.at("name").get<std::string>(), j.at("shape").get<std::vector<int64_t>>(),
          j.at("buffer").get<bool>()};
}

}  // namespace embers::storage
