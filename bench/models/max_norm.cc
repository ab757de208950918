#include "bench/models/max_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/stage_times.h"
#include "bench/harness/bench.h"
#include "model/step.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr int64_t kColumns = 26, kBatch = 2048, kRows = 10'000, kDim = 16;
constexpr double kMaxNorm = 0.115;  // about the median norm of rows of 16 numbers in [-0.05, 0.05)

std::string column_name(int64_t column) { return fmt::format("c{}", column); }

std::unique_ptr<ModelRunner> runner(double max_norm) {
  job::Job job;
  job.source.path = "bench";
  job.model.name = "dnn";
  job.model.params = Json::object();
  for (int64_t c = 0; c < kColumns; ++c) {
    job::Feature feature;
    feature.name = feature.column = column_name(c);
    feature.key_kind = KeyKind::kInt64;
    job.features.push_back(feature);
    job::InputColumn column;
    column.kind = job::InputColumn::Kind::kEmbedding;
    column.features = {feature.name};
    column.dimension = kDim;
    column.combiner = "mean";
    column.max_norm = max_norm;
    job.columns.push_back(column);
  }
  return ModelRunner::make(job);
}

data::Minibatch minibatch(int64_t most_ids) {
  RandomIds random(kRows, true, 5);
  data::Minibatch m;
  m.examples = kBatch;
  for (int64_t c = 0; c < kColumns; ++c) {
    LookupColumn column = random.column(kBatch, most_ids);
    Ids ids;
    ids.keys = Keys(std::move(column.ids));
    ids.offsets = std::move(column.offsets);
    ids.width = most_ids == 1 ? 1 : 0;
    m.ids.push_back(std::move(ids));
  }
  for (int64_t e = 0; e < kBatch; ++e) m.labels.push_back(random.unit() < 0.25 ? 1.0f : 0.0f);
  return m;
}

PulledRows rows_of(const Lookups& lookups) {
  RandomIds random(kRows, false, 7);
  PulledRows rows;
  for (const Lookups::Table& table : lookups.tables) {
    FloatBuffer bet(table.unique.size() * kDim);
    for (float& x : bet.span()) x = static_cast<float>(random.unit() - 0.5) * 0.1f;
    rows.bets.push_back(std::move(bet));
  }
  return rows;
}

Json measure(int64_t most_ids, int rounds) {
  set_threads(1);
  const std::array<std::unique_ptr<ModelRunner>, 2> runners{runner(0), runner(kMaxNorm)};
  const data::Minibatch m = minibatch(most_ids);
  std::array<std::vector<double>, 2> dedupe, combine, dense;
  std::vector<double> ratios, combine_ratios;
  for (int round = -2; round < rounds; ++round) {  // two to warm up
    for (size_t s = 0; s < 2; ++s) {
      StopWatch watch;
      const Lookups lookups = runners[s]->dedupe(m);
      const double dedupe_seconds = watch.lap();
      const StepResult result = runners[s]->train(m, lookups, rows_of(lookups), {});
      if (round < 0) continue;
      dedupe[s].push_back(dedupe_seconds);
      combine[s].push_back(result.combine_seconds);
      dense[s].push_back(result.dense_seconds);
    }
    if (round < 0) continue;
    ratios.push_back((dedupe[1].back() + combine[1].back()) / (dedupe[0].back() + combine[0].back()));
    combine_ratios.push_back(combine[1].back() / combine[0].back());
  }
  Json point{{"ids", most_ids == 1 ? "one" : "1-20"},
             {"ratio", median(ratios)},
             {"combine_ratio", median(combine_ratios)}};
  for (const auto& [name, times] : {std::pair{"dedupe", &dedupe}, {"combine", &combine}, {"dense", &dense}}) {
    point[fmt::format("{}_s", name)] = median((*times)[0]);
    point[fmt::format("{}_max_norm_s", name)] = median((*times)[1]);
  }
  fmt::print(
      "max_norm, {:<5} ids: dedupe {:.3f} ms, combine {:.3f} ms without, {:.3f} with; dense {:.3f}, {:.3f}\n",
      most_ids == 1 ? "one" : "1-20", median(dedupe[0]) * 1e3, median(combine[0]) * 1e3,
      median(combine[1]) * 1e3, median(dense[0]) * 1e3, median(dense[1]) * 1e3);
  return point;
}

}  // namespace

Json measure_max_norm(int rounds) { return {measure(1, rounds), measure(20, rounds)}; }

}  // namespace embers
