#include "bench/models/dedupe.h"

#include <vector>

#include "bench/harness/bench.h"
#include "model/lookup/dedupe.h"

namespace embers {

namespace {

constexpr size_t kIds = 4096, kFeatures = 26;
constexpr double kMillions = kIds * kFeatures / 1e6;

Estimate millions_a_second(const Estimate& seconds) {
  return {kMillions / seconds.value, kMillions / seconds.high, kMillions / seconds.low};
}

}  // namespace

Dedupe measure_dedupe(size_t rounds) {
  std::vector<std::vector<int64_t>> columns(kFeatures);
  RandomIds random(10'000, true, 3);
  for (auto& column : columns)
    for (size_t i = 0; i < kIds; ++i) column.push_back(random.id());
  std::vector<int32_t> place(kIds);
  struct Slot {
    uint64_t word, place;
  };
  std::vector<Slot> slots(4 * kIds);
  KeyIndex index;
  size_t unique = 0;
  Contest contest;
  contest.add("embers", "", [&] {
    const auto begin = BenchClock::now();
    unique = 0;
    for (const auto& column : columns) {
      index.start(KeyKind::kInt64);
      index.add({KeyKind::kInt64, column, {}, {}}, false, place);
      unique += index.unique().size();
    }
    return Cost{seconds_since(begin)};
  });
  contest.add("limit", "", [&] {
    const auto begin = BenchClock::now();
    for (const auto& column : columns)
      for (size_t i = 0; i < kIds; ++i) {
        const auto word = static_cast<uint64_t>(column[i]);
        Slot& slot = slots[(word * 0xd6e8feb86659fd93) >> 50];
        slot.word = word;
        place[i] = static_cast<int32_t>(++slot.place);
      }
    return Cost{seconds_since(begin)};
  });
  contest.warm_up();
  contest.measure(rounds);
  Dedupe result;
  result.mids = millions_a_second(contest.seconds("embers"));
  result.limit_mids = millions_a_second(contest.seconds("limit"));
  result.of_limit = contest.speed("embers", "limit");
  result.report = {{"mids", result.mids.value},
                   {"limit_mids", result.limit_mids.value},
                   {"unique_share", static_cast<double>(unique) / (kIds * kFeatures)},
                   {"sides", contest.json()}};
  return result;
}

}  // namespace embers
