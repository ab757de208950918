#include "job/sections/storage_section.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/errors.h"
#include "base/suggest.h"
#include "job/document/section.h"
#include "job/sections/specs.h"

namespace embers::job {
namespace {

constexpr int64_t kMaxShards = 65535;  // numbers of shards are 16 bits wide in the owner map
constexpr int64_t kMaxBuckets = 1 << 20;
constexpr int64_t kFewestServerMb = 64;  // the least with which memcached works for rows of any size
constexpr int64_t kMostServerMb = 1 << 24;
constexpr int64_t kMostOwnServers = 256;
constexpr int64_t kMostServerThreads = 4096;

void read_number_type(Section& section, std::string_view key, NumberType& type) {
  section.read_choice(key, type,
                      {{"float32", NumberType::kFloat32},
                       {"float16", NumberType::kFloat16},
                       {"bfloat16", NumberType::kBfloat16}});
}

void read_rounding(Section& section, Rounding& rounding) {
  section.read_choice("rounding", rounding,
                      {{"nearest", Rounding::kNearest}, {"stochastic", Rounding::kStochastic}});
}

std::optional<Partition> read_partition(Section& section) {
  if (section.find("partition") == nullptr) return std::nullopt;
  std::string text;
  section.read("partition", text);
  try {
    return partition_named(text);
  } catch (const Error& e) {
    section.fail_at("partition", e.what());
  }
}

TableOverride read_override(Section section, std::string match) {
  TableOverride entry;
  entry.match = std::move(match);
  if (section.find("dim") != nullptr) section.read_count("dim", entry.dim.emplace(0), 1);
  entry.initializer = read_named<InitializerSpec>(section, "initializer");
  entry.optimizer = read_named<UpdateRuleSpec>(section, "optimizer");
  entry.constraint = read_named<ConstraintSpec>(section, "constraint");
  if (section.find("learning_rate") != nullptr) section.read("learning_rate", entry.learning_rate.emplace(0));
  if (section.find("dtype") != nullptr) read_number_type(section, "dtype", entry.dtype.emplace());
  if (section.find("rounding") != nullptr) read_rounding(section, entry.rounding.emplace());
  entry.partition = read_partition(section);
  section.done();
  return entry;
}

std::vector<TableOverride> read_table_overrides(const Section& storage, const toml::table& table) {
  std::vector<TableOverride> entries;
  for (const auto& [key, node] : in_file_order(table)) {
    const std::string match(key->str());
    const std::string title = fmt::format("[storage.tables.\"{}\"]", match);
    entries.push_back(read_override(storage.below(as_section(*node, title), title, "tables"), match));
  }
  return entries;
}

}  // namespace

bool TableOverride::matches(const std::string& table) const {
  return fnmatch(match.c_str(), table.c_str(), 0) == 0;
}

void read(Section& section, StorageSection& storage) {
  static const std::vector<std::string> backends = {"memory", "memcached", "redis"};
  section.read("backend", storage.backend);
  if (std::find(backends.begin(), backends.end(), storage.backend) == backends.end()) {
    section.fail_at("backend", fmt::format("unknown backend '{}'{}", storage.backend,
                                           suggestion(storage.backend, backends)));
  }
  section.read("servers", storage.servers);
  section.read_count("own_servers", storage.own_servers, 1, kMostOwnServers);
  section.read_count("memory_mb", storage.memory_mb, kFewestServerMb, kMostServerMb);
  section.read_count("server_threads", storage.server_threads, 1, kMostServerThreads);
  section.read_positive("server_timeout", storage.server_timeout);
  section.read("journal", storage.journal);
  section.read("owner_timeout", storage.owner_timeout);
  if (!(storage.owner_timeout >= 0))
    section.fail_at("owner_timeout", "'owner_timeout' must be a number of seconds, 0 for none");
  section.read_count("shards", storage.shards, 1, kMaxShards);
  section.read_count("buckets", storage.buckets, 1, kMaxBuckets);
  section.read("network_gbits", storage.network_gbits);
  if (!(storage.network_gbits >= 0))
    section.fail_at("network_gbits", "'network_gbits' must be a number of Gbit/s, 0 if it is not known");
  read_number_type(section, "dtype", storage.dtype);
  read_number_type(section, "wire_dtype", storage.wire_dtype);
  read_rounding(section, storage.rounding);
  if (storage.shards > storage.buckets) {
    section.fail_at("shards", fmt::format("'shards' is {}, more than the {} buckets to spread over them",
                                          storage.shards, storage.buckets));
  }
  if (const toml::node* const tables = section.find("tables")) {
    storage.tables = read_table_overrides(section, as_section(*tables, "[storage.tables]"));
  }
  section.done();
}

}  // namespace embers::job
