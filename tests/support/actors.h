#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "actors/owner/owner.h"
#include "schema/messages/codec.h"

namespace embers::testing_support {

// An actor system with threads of its own, as a process has it.
class System {
 public:
  System() : system_(config()) {}
  operator caf::actor_system&() { return system_; }  // NOLINT: stands for its system everywhere

 private:
  caf::actor_system_config& config() {
    config_.set("scheduler.policy", caf::atom("sharing"));
    config_.set("scheduler.max-threads", size_t{2});
    config_.set("logger.console", caf::atom("none"));
    return config_;
  }
  caf::actor_system_config config_;
  caf::actor_system system_;
};

inline TableSpec table(const std::string& name, uint32_t dim, KeyKind kind = KeyKind::kInt64) {
  TableSpec spec;
  spec.name = name;
  spec.dim = dim;
  spec.key_kind = kind;
  spec.initializer = {"zeros", {}};
  spec.update_rule = {"sgd", {{"learning_rate", 1.0}}};
  return spec;
}

// An owner of all buckets, job 7, map version 1.
inline OwnerConfig owner_config(bool sync, std::vector<TableSpec> tables) {
  OwnerConfig config;
  config.job = 7;
  config.sync = sync;
  config.tables = std::move(tables);
  config.map = even_owner_map(1, 16);
  return config;
}

inline Origin origin(uint64_t minibatch, uint64_t version = 0, uint32_t epoch = 1, uint32_t attempt = 1) {
  Origin o;
  o.job = 7;
  o.incarnation = 1;
  o.epoch = epoch;
  o.minibatch = minibatch;
  o.attempt = attempt;
  o.version = version;
  o.map_version = 1;
  o.examples = 10;
  return o;
}

}  // namespace embers::testing_support
