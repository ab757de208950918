#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "schema/messages/message.h"

namespace embers {

// How stale the applied gradients were. The staleness of a push with gradients is the number of other applies
// at its owner between the pull it was computed on and its own apply (ElasticDL's PS version minus the
// gradient's); a push of a version that is committed is not stale. Plain counts.
struct Staleness {
  static constexpr size_t kBuckets = 8;  // 0, 1, 2, 3-4, 5-8, 9-16, 17-32, 33 and above

  uint64_t sum = 0, max = 0;
  std::array<uint64_t, kBuckets> counts{};  // pushes in each bucket

  void add(uint64_t staleness);
  void merge(const Staleness& other);
  uint64_t pushes() const;
  double mean() const;  // 0 without any push

  std::string summary() const;  // "mean 1.31, max 4"
  std::string text() const;     // "mean 1.31, max 4 (0: 40%, 1: 35%, 3-4: 25%)"
  // "0", "3-4", "33+"
  static std::string bucket_name(size_t bucket);
};

void write(wire::StatsReply::Builder to, const Staleness& staleness);
Staleness read_staleness(wire::StatsReply::Reader reply);

}  // namespace embers
