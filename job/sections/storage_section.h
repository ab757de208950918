#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/table_spec.h"

namespace embers::job {

class Section;

// Per-table changes, matched by glob against table names; later entries win.
struct TableOverride {
  std::string match;
  std::optional<uint32_t> dim;
  std::optional<InitializerSpec> initializer;
  std::optional<UpdateRuleSpec> optimizer;  // replaces the job's, schedule and clipping included
  std::optional<ConstraintSpec> constraint;
  std::optional<double> learning_rate;  // changes only the learning rate
  std::optional<NumberType> dtype;
  std::optional<Rounding> rounding;
  std::optional<Partition> partition;

  bool matches(const std::string& table) const;
};

// [storage]
struct StorageSection {
  std::string backend = "memory";    // memory | memcached | redis
  std::vector<std::string> servers;  // "host:port" or "unix:/path" each; none: the master starts its own
  uint32_t own_servers = 1;          // how many the master starts if it is given none
  uint32_t memory_mb = 1024;         // of each of the job's own servers
  uint32_t server_threads = 2;       // of each of the job's own servers
  double server_timeout = 10;        // seconds that a server may take to answer
  std::string journal;               // directory for owners' write-backs, or ""
  double owner_timeout = 60;  // seconds that a job with a journal waits for a lost owner; 0: not at all
  uint32_t shards = 1;
  uint32_t buckets = 4096;
  double network_gbits = 0;  // of each host's network card; 0: not known, or all are on one host
  NumberType dtype = NumberType::kFloat32;       // what rows are kept as
  Rounding rounding = Rounding::kStochastic;     // of changed rows that are halves
  NumberType wire_dtype = NumberType::kFloat32;  // what rows and their gradients are sent as
  std::vector<TableOverride> tables;
};

void read(Section& section, StorageSection& storage);

}  // namespace embers::job
