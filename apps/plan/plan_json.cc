#include "apps/plan/plan_json.h"

#include <thread>

namespace embers::plan {
namespace {

using Json = nlohmann::json;

Json json_of(const Cost& cost) {
  return {{"seconds", cost.seconds},
          {"seconds_least", cost.seconds_least},
          {"seconds_most", cost.seconds_most},
          {"bytes", cost.bytes}};
}

Json json_of(const std::optional<Cost>& cost) { return cost ? json_of(*cost) : Json(nullptr); }

Json json_of(const TablePlan& table) {
  return {{"name", table.name},
          {"rows", table.rows > 0 ? Json(table.rows) : Json(nullptr)},
          {"dim", table.dim},
          {"keys", table.keys},
          {"token", json_of(table.token)},
          {"encoding", json_of(table.encoding)},
          {"ratio", table.encoding ? Json(table.ratio) : Json(nullptr)},
          {"token_only", table.token_only},
          {"recommended", name(table.recommended)},
          {"auto", name(table.automatic)},
          {"auto_because", table.automatic_why}};
}

}  // namespace

Json to_json(const Plan& plan) {
  Json json{{"job", plan.job},
            {"minibatches", plan.minibatches},
            {"cores", std::thread::hardware_concurrency()},
            {"shards", Json::array()}};
  for (const ShardsPlan& s : plan.shards) {
    Json& one = json["shards"].emplace_back(Json{{"shards", s.shards},
                                                 {"token", json_of(s.token)},
                                                 {"encoding", json_of(s.encoding)},
                                                 {"recommended", json_of(s.recommended)},
                                                 {"tables", Json::array()}});
    for (const TablePlan& table : s.tables) one["tables"].push_back(json_of(table));
  }
  Json partitions = Json::object();
  for (const TablePlan& table : plan.recommended().tables) partitions[table.name] = name(table.recommended);
  json["recommended"] = {{"shards", plan.recommended_shards}, {"partitions", partitions}};
  return json;
}

}  // namespace embers::plan
