#include "bench/models/max_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/stage_times.h"
#include "bench/harness/bench.h"
#include "bench/harness/compare.h"
#include "model/step.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr double kClippedFarther = 1e-4;  // results that differ by more are an error
constexpr int64_t kColumns = 26, kBatch = 2048, kRows = 10'000, kDim = 16;
constexpr float kMaxNorm = 0.115f;  // about the median norm of rows of 16 numbers in [-0.05, 0.05)

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
    for (size_t at = 0; at < bet.size(); at += kDim) keep_clear(kMaxNorm, bet.span().subspan(at, kDim));
    rows.bets.push_back(std::move(bet));
  }
  return rows;
}

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += double{a[k]} * b[k];
  return sum;
}

// What a row is multiplied by.
double factor_of(std::span<const float> row) {
  return std::min(1.0, kMaxNorm / std::sqrt(product(row, row)));
}

PulledRows clipped(const PulledRows& rows) {
  PulledRows result;
  for (const FloatBuffer& bet : rows.bets) {
    FloatBuffer& out = result.bets.emplace_back(bet.size());
    for (size_t at = 0; at < bet.size(); at += kDim) {
      const double factor = factor_of(bet.span().subspan(at, kDim));
      for (size_t k = at; k < at + kDim; ++k) out.data()[k] = static_cast<float>(factor * bet.data()[k]);
    }
  }
  return result;
}

// Carries the gradients of clipped rows back to the rows: along the row itself, nothing is left.
std::vector<float> unclipped(std::span<const float> rows, std::span<const float> gradients) {
  std::vector<float> result(gradients.begin(), gradients.end());
  for (size_t at = 0; at < rows.size(); at += kDim) {
    const auto row = rows.subspan(at, kDim), gradient = gradients.subspan(at, kDim);
    const double factor = factor_of(row), along = product(row, gradient) / product(row, row);
    if (factor == 1) continue;
    for (size_t k = 0; k < row.size(); ++k)
      result[at + k] = static_cast<float>(factor * (gradient[k] - along * row[k]));
  }
  return result;
}

void check_clipping(ModelRunner& without, ModelRunner& with, const data::Minibatch& m) {
  const Lookups lookups = without.dedupe(m);
  const PulledRows rows = rows_of(lookups);
  const StepResult wanted = without.train(m, lookups, clipped(rows), {});
  const StepResult result = with.train(m, with.dedupe(m), rows_of(lookups), {});
  check_close("scores", SideResult{"rows clipped beforehand", wanted.scores},
              SideResult{"max_norm", result.scores}, kClippedFarther);
  for (size_t t = 0; t < wanted.gradients.size(); ++t)
    check_close("gradients",
                SideResult{"rows clipped beforehand",
                           unclipped(rows.bets[t].span(), wanted.gradients[t].values.span())},
                SideResult{"max_norm", result.gradients.at(t).values.span()}, kClippedFarther);
}

}  // namespace

void keep_clear(float max_norm, std::span<float> row) {
  constexpr float kNear = 1e-5f;
  float squares = 0;
  for (const float x : row) squares += x * x;
  if (std::abs(std::sqrt(squares) / max_norm - 1) < kNear)
    for (float& x : row) x *= 1 + 4 * kNear;
}

MaxNorm measure_max_norm(int64_t most_ids, size_t rounds) {
  set_threads(1);
  const std::array<std::unique_ptr<ModelRunner>, 2> runners{runner(0), runner(kMaxNorm)};
  const data::Minibatch m = minibatch(most_ids);
  check_clipping(*runners[0], *runners[1], m);
  Contest contest;
  std::array<std::vector<double>, 2> dedupe, combine, dense;
  for (const size_t s : {0, 1})
    contest.add(s == 0 ? "without" : "max_norm", "", [&, s] {
      StopWatch watch;
      const Lookups lookups = runners[s]->dedupe(m);
      dedupe[s].push_back(watch.lap());
      const StepResult result = runners[s]->train(m, lookups, rows_of(lookups), {});
      combine[s].push_back(result.combine_seconds);
      dense[s].push_back(result.dense_seconds);
      return Cost{dedupe[s].back() + combine[s].back()};
    });
  contest.warm_up();
  for (auto* const times : {&dedupe, &combine, &dense}) times->fill({});
  contest.measure(rounds);
  const char* const ids = most_ids == 1 ? "one" : "1-20";
  MaxNorm result;
  result.ratio = contest.speed("without", "max_norm");
  result.report = {{"ids", ids},
                   {"sides", contest.json()},
                   {"ratio", result.ratio.value},
                   {"combine_ratio", ratio_of_medians(combine[1], combine[0]).value}};
  for (const auto& [name, times] : {std::pair{"dedupe", &dedupe}, {"combine", &combine}, {"dense", &dense}}) {
    result.report[fmt::format("{}_s", name)] = median((*times)[0]);
    result.report[fmt::format("{}_max_norm_s", name)] = median((*times)[1]);
  }
  fmt::print(
      "max_norm, {:<5} ids: dedupe {:.3f} ms, combine {:.3f} ms without, {:.3f} with; dense {:.3f}, {:.3f}\n",
      ids, median(dedupe[0]) * 1e3, median(combine[0]) * 1e3, median(combine[1]) * 1e3,
      median(dense[0]) * 1e3, median(dense[1]) * 1e3);
  return result;
}

}  // namespace embers
