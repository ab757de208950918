#include "actors/owner/staleness.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace embers {
namespace {

// Buckets end at 0, 1, 2, 4, 8, 16, 32; the last one has no end.
size_t bucket_of(uint64_t staleness) {
  const size_t bucket = staleness == 0 ? 0 : static_cast<size_t>(std::bit_width(staleness - 1)) + 1;
  return std::min(bucket, Staleness::kBuckets - 1);
}

uint64_t end_of(size_t bucket) { return bucket == 0 ? 0 : uint64_t{1} << (bucket - 1); }

}  // namespace

void Staleness::add(uint64_t staleness) {
  sum += staleness;
  max = std::max(max, staleness);
  ++counts[bucket_of(staleness)];
}

void Staleness::merge(const Staleness& other) {
  sum += other.sum;
  max = std::max(max, other.max);
  for (size_t i = 0; i < kBuckets; ++i) counts[i] += other.counts[i];
}

uint64_t Staleness::pushes() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }

double Staleness::mean() const {
  return pushes() == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(pushes());
}

std::string Staleness::summary() const { return fmt::format("mean {:.2f}, max {}", mean(), max); }

std::string Staleness::text() const {
  std::string shares;
  for (size_t i = 0; i < kBuckets; ++i)
    if (counts[i] > 0)
      shares += fmt::format("{}{}: {:.0f}%", shares.empty() ? "" : ", ", bucket_name(i),
                            100.0 * static_cast<double>(counts[i]) / static_cast<double>(pushes()));
  return fmt::format("{} ({})", summary(), shares);
}

std::string Staleness::bucket_name(size_t bucket) {
  const uint64_t begin = bucket == 0 ? 0 : end_of(bucket - 1) + 1;
  if (bucket == kBuckets - 1) return fmt::format("{}+", begin);
  return begin == end_of(bucket) ? fmt::format("{}", begin) : fmt::format("{}-{}", begin, end_of(bucket));
}

void write(wire::StatsReply::Builder to, const Staleness& staleness) {
  to.setStaleness(staleness.sum);
  to.setMaxStaleness(staleness.max);
  auto counts = to.initStalenessCounts(Staleness::kBuckets);
  for (unsigned i = 0; i < Staleness::kBuckets; ++i) counts.set(i, staleness.counts[i]);
}

Staleness read_staleness(wire::StatsReply::Reader reply) {
  const auto counts = reply.getStalenessCounts();
  Staleness staleness;
  staleness.sum = reply.getStaleness();
  staleness.max = reply.getMaxStaleness();
  for (unsigned i = 0; i < std::min<unsigned>(counts.size(), Staleness::kBuckets); ++i)
    staleness.counts[i] = counts[i];
  return staleness;
}

}  // namespace embers
