#include "bench/models/dedupe.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/harness/bench.h"
#include "model/lookup/dedupe.h"

namespace embers {

nlohmann::json measure_dedupe(int rounds) {
  constexpr size_t kIds = 4096, kColumns = 26;
  std::vector<std::vector<int64_t>> columns(kColumns);
  RandomIds random(10'000, true, 3);
  for (auto& column : columns)
    for (size_t i = 0; i < kIds; ++i) column.push_back(random.id());
  std::vector<int32_t> place(kIds);
  struct Slot {
    uint64_t word, place;
  };
  std::vector<Slot> slots(4 * kIds);
  KeyIndex index;
  double best = INFINITY, best_limit = INFINITY;
  size_t unique = 0;
  for (int round = 0; round < rounds; ++round) {
    auto begin = BenchClock::now();
    unique = 0;
    for (const auto& column : columns) {
      index.start(KeyKind::kInt64);
      index.add({KeyKind::kInt64, column, {}, {}}, false, place);
      unique += index.unique().size();
    }
    best = std::min(best, seconds_since(begin));
    begin = BenchClock::now();
    for (const auto& column : columns)
      for (size_t i = 0; i < kIds; ++i) {
        const auto word = static_cast<uint64_t>(column[i]);
        Slot& slot = slots[(word * 0xd6e8feb86659fd93) >> 50];
        slot.word = word;
        place[i] = static_cast<int32_t>(++slot.place);
      }
    best_limit = std::min(best_limit, seconds_since(begin));
  }
  const double ids = static_cast<double>(kIds * kColumns) / 1e6;
  return {{"mids", ids / best},
          {"limit_mids", ids / best_limit},
          {"unique_share", static_cast<double>(unique) / (kIds * kColumns)}};
}

}  // namespace embers
