#include "apps/control/status_json.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

namespace embers {
namespace {

using Json = nlohmann::ordered_json;

Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }
Json text(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json group(const Status::Group& g) { return {{"wanted", g.wanted}, {"joined", g.joined}, {"lost", g.lost}}; }

Json evaluation(const std::optional<Status::Evaluation>& e) {
  if (!e) return nullptr;
  return {{"loss", number(e->loss)}, {"auc", number(e->auc)}, {"accuracy", number(e->accuracy)}};
}

Json member(const Status::Member& m) {
  return {{"name", m.name},
          {"role", m.role},
          {"number", m.number},
          {"label", m.label},
          {"host", m.host},
          {"pid", m.pid},
          {"state", m.state},
          {"last_sign_s", number(m.last_sign_s)},
          {"joined_s", number(m.joined_s)},
          {"minibatches", m.minibatches},
          {"examples", m.examples},
          {"rows", m.rows},
          {"bytes", m.bytes},
          {"pulls_per_s", number(m.pulls_per_s)},
          {"pushes_per_s", number(m.pushes_per_s)},
          {"lag", m.lag}};
}

}  // namespace

Json to_json(const Status& s) {
  Json members = Json::array();
  for (const Status::Member& m : s.members) members.push_back(member(m));
  return {{"job", job_file(s)},
          {"id", fmt::format("{:016x}", s.id)},
          {"task", s.task},
          {"mode", s.mode},
          {"phase", s.phase},
          {"error", text(s.error)},
          {"stopping", text(s.stopping)},
          {"elapsed_s", number(s.elapsed_s)},
          {"remaining_s", number(s.remaining_s)},
          {"epoch", s.epoch},
          {"epochs", s.epochs},
          {"version", s.version},
          {"minibatches_done", s.minibatches_done},
          {"minibatches", s.minibatches},
          {"examples", s.examples},
          {"examples_per_s", number(s.examples_per_s)},
          {"loss", number(s.loss)},
          {"auc", number(s.auc)},
          {"evaluation", evaluation(s.evaluation)},
          {"staleness", {{"mean", number(s.staleness_mean)}, {"max", s.staleness_max}}},
          {"workers", group(s.workers)},
          {"shards", group(s.shards)},
          {"members", members}};
}

std::string json_text(const Status& status, int indent) {
  return to_json(status).dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string job_file(const Status& status) { return std::filesystem::path(status.job).filename().string(); }

}  // namespace embers
