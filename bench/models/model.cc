// embers bench model: whole training steps of DLRM, DeepFM and WDL with their embeddings unfused and fused.
//
// A *step* is: lookups of 26 columns (WDL: and of as many of its wide part) -> dense forward, loss, backward
// -> gradients of the rows -> Adam on rows (lazily) and on dense parameters. Only the first and the third
// differ: *unfused* is a chain of libtorch operators per column (see chain_peer), *fused* is one
// fused_safe_embedding_lookup_sparse for all columns of one dim. Tables have 10 000 rows a column, as
// hash_bucket_size in DeepRec's modelzoo, ids are Zipf; one id per feature, or 1 to 20. Both sides start from
// the same values and must arrive at the same losses. They take turns, with one thread and with two; a side's
// time is the better of its two medians.
//
//   model.<model>.one_id, .multi_hot     unfused over fused
//   model.max_norm.one_id, .multi_hot    columns with max_norm over the same without (see max_norm.h)
#include <algorithm>
#include <array>
#include <cmath>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/models/max_norm.h"
#include "bench/peers/dense_part.h"
#include "model/lookup/operators/lookup_operators.h"
#include "model/step.h"
#include "storage/update_rules/update_rule.h"

namespace embers {
namespace {

using Json = nlohmann::json;
using storage::UpdateKernel;

constexpr int64_t kRows = 10'000;  // of each column
constexpr int64_t kMostIds = 20;
constexpr size_t kMinibatches = 4;  // that steps cycle through
constexpr double kFarther = 1e-3;   // losses that differ by more are an error
constexpr std::array<int, 2> kThreads{1, 2};

struct TrainingMinibatch {
  std::vector<LookupColumn> columns;
  std::vector<float> numeric, labels;
  int64_t examples() const { return static_cast<int64_t>(labels.size()); }
};

TrainingMinibatch minibatch(int64_t examples, int64_t columns, int64_t most_ids, uint64_t seed) {
  RandomIds random(kRows, true, seed);
  TrainingMinibatch m;
  for (int64_t c = 0; c < columns; ++c) m.columns.push_back(random.column(examples, most_ids));
  for (int64_t i = 0; i < examples * DensePart::kNumeric; ++i)
    m.numeric.push_back(static_cast<float>(random.unit()));
  for (int64_t i = 0; i < examples; ++i) m.labels.push_back(random.unit() < 0.25 ? 1.0f : 0.0f);
  return m;
}

// Consecutive columns of one dim, looked up together by the fused side.
struct Group {
  size_t begin, end;
  int64_t dim;
  size_t columns() const { return end - begin; }
};

std::vector<Group> groups_of(const std::vector<int64_t>& dims) {
  std::vector<Group> groups;
  for (size_t c = 0; c < dims.size(); ++c)
    if (groups.empty() || groups.back().dim != dims[c])
      groups.push_back({c, c + 1, dims[c]});
    else
      groups.back().end = c + 1;
  return groups;
}

// Values and Adam's slots of rows, or of a dense parameter that is one row.
class Trained {
 public:
  explicit Trained(size_t floats) : slots_(2 * floats) {}
  void apply(const UpdateKernel& kernel, std::span<float> values, int64_t dim, std::span<const int64_t> rows,
             std::span<const float> gradients) {
    const auto width = static_cast<size_t>(dim);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<size_t>(rows[i]);
      kernel(values.subspan(row * width, width), std::span(slots_).subspan(2 * row * width, 2 * width),
             gradients.subspan(i * width, width));
    }
  }

 private:
  std::vector<float> slots_;
};

struct Table {
  Table(size_t columns, int64_t dim, bool zero)
      : dim(dim), values(columns * static_cast<size_t>(kRows * dim)), trained(values.size()) {
    RandomIds random(kRows, false, 7);
    if (!zero)
      for (float& v : values) v = static_cast<float>(random.unit() - 0.5) * 0.1f;
  }
  void apply(const UpdateKernel& kernel, std::span<const int64_t> rows, std::span<const float> gradients) {
    trained.apply(kernel, values, dim, rows, gradients);
  }
  int64_t dim;
  std::vector<float> values;
  Trained trained;
};

// The embeddings of one model: those of its deep part, and those of its wide part, if any.
class Embeddings {
 public:
  explicit Embeddings(const DensePart::Shape& shape) : groups_(groups_of(shape.dims)) {
    for (const Group& group : groups_) deep_.emplace_back(group.columns(), group.dim, false);
    if (shape.wide) wide_.emplace_back(shape.dims.size(), 1, true);
  }
  virtual ~Embeddings() = default;
  virtual void set_threads(int) {}
  virtual void forward(const TrainingMinibatch& m) = 0;
  virtual std::vector<DensePart::Block> deep() const = 0;
  virtual std::vector<DensePart::Block> wide() const = 0;
  virtual void backward(const DensePart& dense) = 0;
  virtual void apply(const UpdateKernel& kernel) = 0;

 protected:
  const std::vector<Group> groups_;
  std::vector<Table> deep_, wide_;  // one table per group; none or one
};

// One chain of operators per column and table.
class Unfused final : public Embeddings {
 public:
  explicit Unfused(const DensePart::Shape& shape) : Embeddings(shape) {
    for (size_t g = 0; g < groups_.size(); ++g)
      for (size_t c = 0; c < groups_[g].columns(); ++c) add(deep_columns_, deep_[g], c, Combiner::kMean);
    for (size_t c = 0; c < shape.dims.size() && shape.wide; ++c)
      add(wide_columns_, wide_.front(), c, Combiner::kSum);
  }
  void forward(const TrainingMinibatch& m) override {
    for (auto* columns : {&deep_columns_, &wide_columns_})
      for (size_t c = 0; c < columns->size(); ++c) (*columns)[c].peer->forward(m.columns[c]);
  }
  std::vector<DensePart::Block> deep() const override { return blocks(deep_columns_); }
  std::vector<DensePart::Block> wide() const override { return blocks(wide_columns_); }
  void backward(const DensePart& dense) override {
    for (size_t c = 0; c < deep_columns_.size(); ++c) deep_columns_[c].peer->backward(dense.deep_gradient(c));
    for (size_t c = 0; c < wide_columns_.size(); ++c) wide_columns_[c].peer->backward(dense.wide_gradient(c));
  }
  void apply(const UpdateKernel& kernel) override {
    for (auto* columns : {&deep_columns_, &wide_columns_})
      for (Column& column : *columns) {
        std::vector<int64_t> rows = column.peer->gradient_rows();
        for (int64_t& row : rows) row += column.first_row;
        column.table->apply(kernel, rows, column.peer->gradient_values());
      }
  }

 private:
  struct Column {
    Table* table;
    int64_t first_row;
    std::unique_ptr<LookupPeer> peer;
  };
  static void add(std::vector<Column>& columns, Table& table, size_t number, Combiner combiner) {
    const auto floats = static_cast<size_t>(kRows * table.dim);
    columns.push_back(
        {&table, static_cast<int64_t>(number) * kRows,
         chain_peer(std::span(table.values).subspan(number * floats, floats), table.dim, combiner)});
  }
  static std::vector<DensePart::Block> blocks(const std::vector<Column>& columns) {
    std::vector<DensePart::Block> all;
    for (const Column& column : columns) all.push_back({column.peer->output(), column.table->dim});
    return all;
  }
  std::vector<Column> deep_columns_, wide_columns_;
};

// One lookup for all columns of a table: an example's bags side by side, so that the output needs no
// concatenation; in the wide part all its columns are one bag.
class Fused final : public Embeddings {
 public:
  explicit Fused(const DensePart::Shape& shape) : Embeddings(shape) {
    for (size_t g = 0; g < groups_.size(); ++g)
      lookups_.push_back(std::make_unique<Lookup>(deep_[g], groups_[g], Combiner::kMean));
    if (shape.wide)
      lookups_.push_back(
          std::make_unique<Lookup>(wide_.front(), Group{0, shape.dims.size(), 1}, Combiner::kSum));
  }
  void set_threads(int threads) override { workspaces_ = &by_threads_[threads == 1 ? 0 : 1]; }
  void forward(const TrainingMinibatch& m) override {
    for (size_t i = 0; i < lookups_.size(); ++i) lookups_[i]->forward(m, workspace(i));
  }
  std::vector<DensePart::Block> deep() const override {
    std::vector<DensePart::Block> all;
    for (size_t g = 0; g < groups_.size(); ++g) all.push_back(lookups_[g]->block());
    return all;
  }
  std::vector<DensePart::Block> wide() const override {
    if (wide_.empty()) return {};
    return {lookups_.back()->block()};
  }
  void backward(const DensePart& dense) override {
    for (size_t i = 0; i < lookups_.size(); ++i)
      lookups_[i]->backward(i < groups_.size() ? dense.deep_gradient(i) : dense.wide_gradient(0),
                            workspace(i));
  }
  void apply(const UpdateKernel& kernel) override {
    for (auto& lookup : lookups_) lookup->apply(kernel);
  }

 private:
  class Lookup {
   public:
    Lookup(Table& table, Group group, Combiner combiner)
        : table_(table), group_(group), combiner_(combiner), local_({table.values}, table.dim) {}
    void forward(const TrainingMinibatch& m, LookupWorkspace& workspace) {
      merge(m);
      out_.resize((offsets_.size() - 1) * static_cast<size_t>(table_.dim));
      fused_safe_embedding_lookup_sparse(local_, {std::span<const int64_t>(ids_), offsets_, {}},
                                         {combiner_, {}, {}, true}, pass_, workspace, out_);
    }
    void backward(std::span<const float> gradient, LookupWorkspace& workspace) {
      gradient_ = lookup_gradient(pass_, gradient, workspace);
    }
    void apply(const UpdateKernel& kernel) { table_.apply(kernel, gradient_.rows, gradient_.values); }
    DensePart::Block block() const {
      return {out_, combiner_ == Combiner::kSum ? 1 : static_cast<int64_t>(group_.columns()) * table_.dim};
    }

   private:
    // Ids of the group's columns, example by example, as row numbers of the one table.
    void merge(const TrainingMinibatch& m) {
      ids_.clear();
      offsets_.assign(1, 0);
      for (size_t e = 0; e < static_cast<size_t>(m.examples()); ++e) {
        for (size_t c = group_.begin; c < group_.end; ++c) {
          const LookupColumn& column = m.columns[c];
          const int64_t first_row = static_cast<int64_t>(c - group_.begin) * kRows;
          for (auto i = static_cast<size_t>(column.offsets[e]);
               i < static_cast<size_t>(column.offsets[e + 1]); ++i)
            ids_.push_back(column.ids[i] + first_row);
          if (combiner_ != Combiner::kSum) offsets_.push_back(static_cast<int64_t>(ids_.size()));
        }
        if (combiner_ == Combiner::kSum) offsets_.push_back(static_cast<int64_t>(ids_.size()));
      }
    }

    Table& table_;
    const Group group_;
    const Combiner combiner_;
    const LocalTable local_;
    std::vector<int64_t> ids_, offsets_;
    std::vector<float> out_;
    LookupPass pass_;
    RowGradients gradient_;
  };
  // A gradient lives in its workspace until it is applied, so each lookup has its own.
  using Workspaces = std::array<LookupWorkspace, 3>;
  LookupWorkspace& workspace(size_t lookup) { return workspaces_->at(lookup); }

  std::vector<std::unique_ptr<Lookup>> lookups_;  // of the groups, then of the wide part
  std::array<Workspaces, 2> by_threads_{
      Workspaces{LookupWorkspace(1), LookupWorkspace(1), LookupWorkspace(1)},
      Workspaces{LookupWorkspace(2), LookupWorkspace(2), LookupWorkspace(2)}};
  Workspaces* workspaces_ = &by_threads_[0];
};

struct StageTimes {
  double lookup = 0, dense = 0, gradient = 0, apply = 0;
  double total() const { return lookup + dense + gradient + apply; }
};

class Side {
 public:
  Side(const char* name, const DensePart::Shape& shape, std::unique_ptr<Embeddings> embeddings)
      : name_(name), embeddings_(std::move(embeddings)), dense_(DensePart::make(shape.name)) {}

  const char* name() const { return name_; }
  void set_threads(int threads) {
    embers::set_threads(static_cast<uint32_t>(threads));
    embeddings_->set_threads(threads);
  }
  double loss() const { return loss_; }

  StageTimes step(const TrainingMinibatch& m) {
    std::array<BenchClock::time_point, 5> at;
    at[0] = BenchClock::now();
    embeddings_->forward(m);
    at[1] = BenchClock::now();
    loss_ = dense_->run(m.numeric, m.labels, embeddings_->deep(), embeddings_->wide());
    at[2] = BenchClock::now();
    embeddings_->backward(*dense_);
    at[3] = BenchClock::now();
    apply();
    at[4] = BenchClock::now();
    const auto part = [&](size_t i) { return std::chrono::duration<double>(at[i + 1] - at[i]).count(); };
    return {part(0), part(1), part(2), part(3)};
  }

 private:
  void apply() {
    const UpdateKernel kernel = adam_->kernel({++steps_, 0.001});
    embeddings_->apply(kernel);
    const auto parameters = dense_->parameters();
    if (trained_.empty())
      for (const auto& p : parameters) trained_.emplace_back(p.values.size());
    constexpr std::array<int64_t, 1> kOnlyRow{0};
    for (size_t p = 0; p < parameters.size(); ++p)
      trained_[p].apply(kernel, parameters[p].values, static_cast<int64_t>(parameters[p].values.size()),
                        kOnlyRow, parameters[p].gradient);
  }

  const char* name_;
  std::unique_ptr<Embeddings> embeddings_;
  std::unique_ptr<DensePart> dense_;
  std::unique_ptr<const storage::UpdateRule> adam_ = storage::UpdateRule::make({"adam", {}});
  std::vector<Trained> trained_;
  uint64_t steps_ = 0;
  double loss_ = 0;
};

StageTimes median(std::vector<StageTimes> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end(),
                   [](const StageTimes& a, const StageTimes& b) { return a.total() < b.total(); });
  return *middle;
}

Json to_json(const StageTimes& t) {
  return {{"step_s", t.total()},
          {"lookup_s", t.lookup},
          {"dense_s", t.dense},
          {"gradient_s", t.gradient},
          {"apply_s", t.apply}};
}

struct Result {
  StageTimes best;
  int threads;
};

Json measure(const DensePart::Shape& shape, int64_t batch, int64_t most_ids, int rounds) {
  std::vector<TrainingMinibatch> minibatches;
  for (size_t i = 0; i < kMinibatches; ++i)
    minibatches.push_back(minibatch(batch, static_cast<int64_t>(shape.dims.size()), most_ids, 11 + i));
  std::array<Side, 2> sides{Side("unfused", shape, std::make_unique<Unfused>(shape)),
                            Side("fused", shape, std::make_unique<Fused>(shape))};
  for (const TrainingMinibatch& m : minibatches) {
    for (Side& side : sides) side.step(m);
    if (!(std::abs(sides[0].loss() - sides[1].loss()) <= kFarther * (1 + std::abs(sides[0].loss()))))
      fail(ErrorCode::kInternal, "{}: the loss is {} unfused and {} fused", shape.name, sides[0].loss(),
           sides[1].loss());
  }
  std::array<std::array<std::vector<StageTimes>, 2>, 2> times;
  for (int round = 0; round < rounds; ++round)
    for (size_t t = 0; t < kThreads.size(); ++t)
      for (size_t s = 0; s < sides.size(); ++s) {
        sides[s].set_threads(kThreads[t]);
        sides[s].step(minibatches.back());  // warms up: threads, caches
        for (const TrainingMinibatch& m : minibatches) times[s][t].push_back(sides[s].step(m));
      }

  Json json{{"model", shape.name}, {"batch", batch}, {"ids", most_ids == 1 ? "one" : "1-20"}};
  std::array<Result, 2> results;
  for (size_t s = 0; s < sides.size(); ++s) {
    std::array<StageTimes, 2> medians{median(times[s][0]), median(times[s][1])};
    const size_t best = medians[1].total() < medians[0].total() ? 1 : 0;
    results[s] = {medians[best], kThreads[best]};
    json[sides[s].name()] = to_json(medians[best]);
    json[sides[s].name()]["threads"] = kThreads[best];
    json[sides[s].name()]["one_thread"] = to_json(medians[0]);
    json[sides[s].name()]["two_threads"] = to_json(medians[1]);
  }
  const auto& [unfused, fused] = results;
  json["ratio"] = unfused.best.total() / fused.best.total();
  // With embeddings that cost nothing.
  json["limit"] = unfused.best.total() / (fused.best.dense + fused.best.apply);
  const auto ms = [](double s) { return s * 1e3; };
  fmt::print(
      "{:<7} {:>5} {:>5}   {:7.2f} {:6.2f} {:6.2f} {:6.2f} {:6.2f} ({})   {:7.2f} {:6.2f} {:6.2f} {:6.2f} "
      "{:6.2f} ({})   {:5.2f}  {:5.2f}\n",
      shape.name, batch, most_ids == 1 ? "one" : "1-20", ms(unfused.best.total()), ms(unfused.best.lookup),
      ms(unfused.best.dense), ms(unfused.best.gradient), ms(unfused.best.apply), unfused.threads,
      ms(fused.best.total()), ms(fused.best.lookup), ms(fused.best.dense), ms(fused.best.gradient),
      ms(fused.best.apply), fused.threads, json["ratio"].get<double>(), json["limit"].get<double>());
  std::fflush(stdout);
  return json;
}

// What DeepRec's document reports for its own fusion, and ours must exceed.
double seed_speedup(const std::string& model) {
  if (model == "dlrm") return 1.19;
  return model == "deepfm" ? 1.20 : 1.05;
}

}  // namespace

int bench_model(const BenchOptions& options) {
  Json report = begin_report("model", options);
  fmt::print(
      "ms a step                unfused                              (threads)  fused                        "
      "        "
      "          \n"
      "model   batch   ids     step lookup  dense   grad  apply          step lookup  dense   grad  apply    "
      "   "
      "  ratio  limit\n");
  const int rounds = options.quick ? 1 : 5;
  for (const DensePart::Shape& shape : DensePart::shapes()) {
    double one_id = INFINITY, multi_hot = INFINITY;
    for (const int64_t most_ids : {int64_t{1}, kMostIds})
      for (const int64_t batch : {512, 2048}) {
        const Json point = measure(shape, batch, most_ids, rounds);
        const double ratio = point["ratio"].get<double>();
        double& worst = most_ids == 1 ? one_id : multi_hot;
        worst = std::min(worst, ratio);
        report["grid"].push_back(point);
      }
    report["targets"].push_back(target("model." + shape.name + ".one_id", one_id, seed_speedup(shape.name)));
    report["targets"].push_back(target("model." + shape.name + ".multi_hot", multi_hot, 1.7));
  }
  report["max_norm"] = measure_max_norm(options.quick ? 20 : 200);
  for (const Json& point : report["max_norm"])
    report["targets"].push_back(
        target_at_most(point["ids"] == "one" ? "model.max_norm.one_id" : "model.max_norm.multi_hot",
                       point["ratio"].get<double>(), 1.2));
  return end_report(report, options);
}

}  // namespace embers
