#include "master/partition_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/cpus.h"

namespace embers {
namespace {

// Keys of a minibatch, where nothing says how many there are.
constexpr double kFewKeys = 16;

// Columns from which on a table of any number of rows is split by columns, too. Below, that each shard would
// keep an index of all keys counts more.
constexpr uint32_t kVeryWide = 16384;

// Encoding has more messages, which disturb others: it must be clearly faster.
constexpr double kClearlyFaster = 1.03;

}  // namespace

double busiest_share(double keys, uint32_t owners) {
  if (owners <= 1 || keys <= 1) return 1;
  // Of as many normal deviates as owners, the largest one is about 0.8 sqrt(log2(owners)) on average.
  const double even = 1.0 / owners, deviation = std::sqrt(even * (1 - even) / keys);
  return std::min(1.0, even + 0.8 * std::sqrt(std::log2(owners)) * deviation);
}

StepCosts step_costs(const JobScale& scale) {
  StepCosts costs;
  const size_t cores = scale.cores == 0 ? allowed_cpus().size() : scale.cores;
  if (cores >= scale.owners + 2) costs.shard_byte = 0.8e-9;  // not measured: a copy, an update, 10 Gbit/s
  if (scale.network_gbits > 0) costs.link_byte = 8e-9 / scale.network_gbits;
  costs.workers = std::max(1u, scale.workers);
  return costs;
}

double step_seconds(const TableSpec& table, Partition partition, double keys, uint32_t owners,
                    const StepCosts& costs) {
  const double bytes = 2.0 * keys * table.dim * sizeof(float);
  const bool encoding = partition == Partition::kEncoding;
  const double share = busiest_share(keys, owners);
  const double asked = encoding ? owners : owners * (1 - std::pow(1 - 1.0 / owners, keys));
  const double bytes_share = encoding ? 1.0 / owners : share;  // of the busiest shard
  // Through a worker's card goes all that is its own, through the busiest shard's what it has of all
  // workers'. Keys go there twice, with encoding to each shard.
  const double key_bytes = 2.0 * keys * sizeof(int64_t);
  const double workers_card = bytes + key_bytes * (encoding ? owners : 1);
  const double shards_card = costs.workers * (bytes * bytes_share + key_bytes * (encoding ? 1 : share));
  return costs.message * (asked + owners) + costs.worker_key * keys * (encoding ? owners : 1) +
         costs.worker_byte * bytes + costs.shard_key * keys * (encoding ? 1 : share) +
         costs.shard_byte * bytes * bytes_share + costs.link_byte * std::max(workers_card, shards_card);
}

PartitionChoice choose_partition(const TableSpec& table, uint32_t owners, uint64_t batch_size,
                                 const StepCosts& costs) {
  if (owners <= 1) return {Partition::kToken, "with one shard the strategies are the same"};
  if (table.input_dim == 0 && table.dim < kVeryWide)
    return {Partition::kToken,
            fmt::format("it may have any number of rows, and each is only {} columns wide", table.dim)};
  double keys = kFewKeys;
  if (batch_size > 0) keys = std::min(keys, static_cast<double>(batch_size));
  if (table.input_dim > 0) keys = std::min(keys, static_cast<double>(table.input_dim));
  const double token = step_seconds(table, Partition::kToken, keys, owners, costs),
               encoding = step_seconds(table, Partition::kEncoding, keys, owners, costs);
  const std::string why =
      fmt::format("{:.0f} keys of {} columns would take {:.0f} us by columns, {:.0f} us by rows", keys,
                  table.dim, encoding * 1e6, token * 1e6);
  return {token > kClearlyFaster * encoding ? Partition::kEncoding : Partition::kToken, why};
}

}  // namespace embers
