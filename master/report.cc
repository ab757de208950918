#include "master/report.h"

#include <sys/resource.h>

#include <cmath>

namespace embers {
namespace {

nlohmann::json number(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); }

nlohmann::json histogram(const Staleness& staleness) {
  nlohmann::json json = nlohmann::json::object();
  for (size_t i = 0; i < Staleness::kBuckets; ++i) json[Staleness::bucket_name(i)] = staleness.counts[i];
  return json;
}

nlohmann::json seconds_of(const StageTimes& stages) {
  nlohmann::json json = nlohmann::json::object();
  for (size_t i = 0; i < StageTimes::kStages; ++i) json[StageTimes::kNames[i]] = stages.seconds[i];
  return json;
}

nlohmann::json to_json(const Period& p) {
  return {{"examples", p.examples},
          {"seconds", p.seconds},
          {"examples_per_second", p.examples_per_second()},
          {"loss", number(p.loss)},
          {"test_loss", number(p.test_loss)},
          {"auc", number(p.auc)},
          {"accuracy", number(p.accuracy)},
          {"workers", p.workers},
          {"shards", p.shards},
          {"version", p.owners.version},
          {"rows", p.owners.rows},
          {"resident_bytes", p.owners.resident_bytes},
          {"mean_staleness", p.owners.staleness.mean()},
          {"max_staleness", p.owners.staleness.max},
          {"staleness_histogram", histogram(p.owners.staleness)},
          {"keys", p.keys},
          {"cache_hits", p.cache_hits},
          {"stage_seconds", seconds_of(p.stages)}};
}

uint64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

nlohmann::json to_json(const Report& r) {
  nlohmann::json json = to_json(r.total);
  const OwnerStats& owners = r.total.owners;
  json["job"] = r.job;
  json["mode"] = r.mode;
  json["stopped"] = !r.stopped_by.empty();
  json["stopped_by"] = r.stopped_by;
  json["minibatches"] = owners.minibatches;
  json["duplicates"] = owners.duplicates;
  json["bad_gradients"] = owners.bad_gradients;
  json["workers_joined"] = r.workers_joined;
  json["workers_lost"] = r.workers_lost;
  json["skipped_rows"] = r.skipped_rows;
  json["late_pulls"] = r.late_pulls;
  json["rows_read_directly"] = r.direct_rows;
  json["rows_read_through_owners"] = r.owner_rows;
  json["released_minibatches"] = r.released;
  json["peak_memory_bytes"] = peak_memory_bytes();
  json["epochs"] = nlohmann::json::array();
  for (size_t i = 0; i < r.epochs.size(); ++i) {
    nlohmann::json epoch = to_json(r.epochs[i]);
    epoch["epoch"] = r.first_epoch + i;
    json["epochs"].push_back(std::move(epoch));
  }
  return json;
}

}  // namespace embers
