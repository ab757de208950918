#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/plan/surroundings.h"
#include "apps/plan/workload.h"

// Which tables of a job are better split by rows (token) and which by columns (encoding), and over how many
// shards: found by doing both.
namespace embers::plan {

// What a step costs, over blocks of steps.
struct Cost {
  double seconds = 0, seconds_least = 0, seconds_most = 0;  // median, range
  double bytes = 0;                                         // between a worker and all shards, both ways
};

struct TablePlan {
  std::string name;
  int64_t rows = 0;  // 0: unbounded
  uint32_t dim = 0;
  double keys = 0;                      // unique, a minibatch
  std::optional<Cost> token, encoding;  // without keys: neither; encoding: not where token_only
  std::string token_only;               // why it cannot be split by columns; "" if it can
  double ratio = 0;  // seconds of token over those of encoding, the median of pairs of blocks
  Partition recommended = Partition::kToken;
  Partition automatic = Partition::kToken;  // what partition = "auto" chooses ...
  std::string automatic_why;                // ... and why
};

struct ShardsPlan {
  uint32_t shards = 0;
  std::vector<TablePlan> tables;
  Cost token;                    // of a whole minibatch, all tables with token
  std::optional<Cost> encoding;  // all tables that can be with encoding
  Cost recommended;              // each table as recommended
};

struct Plan {
  std::string job;
  size_t minibatches = 0;
  std::vector<ShardsPlan> shards;
  uint32_t recommended_shards = 0;  // the least seconds of a recommended minibatch

  const ShardsPlan& recommended() const;
};

struct Effort {
  size_t rounds = 15;   // blocks of each strategy, in turns
  double seconds = 20;  // of measuring for each number of shards, about
};

// `say` is told how far it has got, a line each time.
Plan make_plan(const Workload& workload, const std::vector<uint32_t>& shards, const Effort& effort,
               const std::function<void(const std::string& line)>& say,
               const Surroundings& surroundings = {});

// Encoding is recommended where it is faster by more than what is likely chance.
inline constexpr double kClearlyFaster = 1.03;

double median(std::vector<double> values);  // not empty
// The median of a[i] / b[i]: what disturbs the machine for a while disturbs both. As long as each other.
double paired_ratio(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace embers::plan
