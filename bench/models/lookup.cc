// embers bench lookup: the fused lookup operators compared with libtorch's, in one run on one thread each.
//
// 26 columns x batch 4096 x 1 to 20 ids (each number equally likely), combiner mean, over one table that the
// columns share; dim 16, 64 and 128; ids uniform, or Zipf (exponent 1, ranks scattered over the table); 1 M
// and 10 M rows. A *step* is the forward pass of a column and then its backward pass, for all columns. Each
// side's best of several steps counts, and the sides take turns. Every side's results are compared first.
#include <sys/mman.h>

#include <cmath>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "model/lookup/operators/lookup_operators.h"
#include "model/step.h"

namespace embers {
namespace {

using Json = nlohmann::json;
using Clock = BenchClock;

constexpr int64_t kBatch = 4096;
constexpr int64_t kMostIds = 20;
constexpr float kMaxNorm = 0.55f;  // about half of the rows are longer
constexpr double kFarther = 1e-3;  // results that differ by more are an error

// Rows in huge pages, the same memory for all sides.
class Table {
 public:
  explicit Table(size_t floats) : bytes_(floats * sizeof(float)), floats_(floats) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      fail(ErrorCode::kInvalid, "not enough memory for a table of {} MiB: try --quick", bytes_ >> 20);
    madvise(memory, bytes_, MADV_HUGEPAGE);
    data_ = static_cast<float*>(memory);
    uint32_t state = 1;
    for (size_t i = 0; i < floats; ++i) {
      state = state * 1664525 + 1013904223;
      data_[i] = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    }
  }
  ~Table() { munmap(data_, bytes_); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  std::span<const float> values() const { return {data_, floats_}; }
  // Rows about as long as max_norm, whatever their dim.
  void scale_to(int64_t dim) {
    const float factor = kMaxNorm / std::sqrt(static_cast<float>(dim) / 12);
    for (size_t i = 0; i < floats_; ++i) data_[i] *= factor;
  }

 private:
  size_t bytes_, floats_;
  float* data_;
};

struct Point {
  int64_t dim, rows;
  bool zipf;
  int columns;
};

std::vector<LookupColumn> columns_of(const Point& point) {
  RandomIds ids(point.rows, point.zipf, 5);
  std::vector<LookupColumn> columns;
  for (int c = 0; c < point.columns; ++c) columns.push_back(ids.column(kBatch, kMostIds));
  return columns;
}

class Ours : public LookupPeer {
 public:
  Ours(std::span<const float> table, int64_t dim, bool full) : table_({table}, dim), full_(full) {}
  void forward(const LookupColumn& column) override {
    out_.resize((column.offsets.size() - 1) * static_cast<size_t>(table_.dim()));
    SparseIds ids{std::span(column.ids), column.offsets, {}};
    LookupOptions options{Combiner::kMean, {}, {}, true};
    if (full_) {
      ids.weights = column.weights;
      options.max_norm = kMaxNorm;
    }
    fused_safe_embedding_lookup_sparse(table_, ids, options, pass_, workspace_, out_);
  }
  void backward(std::span<const float> out_gradient) override {
    gradient_ = lookup_gradient(pass_, out_gradient, workspace_);
  }
  std::span<const float> output() const override { return out_; }
  std::vector<int64_t> gradient_rows() const override {
    return {gradient_.rows.begin(), gradient_.rows.end()};
  }
  std::span<const float> gradient_values() const override { return gradient_.values; }

 private:
  const LocalTable table_;
  const bool full_;
  LookupPass pass_;
  LookupWorkspace workspace_;
  std::vector<float> out_;
  RowGradients gradient_;
};

struct Side {
  const char* name;
  std::unique_ptr<LookupPeer> peer;
  double forward = INFINITY, backward = INFINITY, total = INFINITY;  // best step, seconds
};

void step(Side& side, const std::vector<LookupColumn>& columns, std::span<const float> gradient) {
  double forward = 0, backward = 0;
  for (const LookupColumn& column : columns) {
    const auto begin = Clock::now();
    side.peer->forward(column);
    forward += seconds_since(begin);
    const auto middle = Clock::now();
    side.peer->backward(gradient);
    backward += seconds_since(middle);
  }
  side.forward = std::min(side.forward, forward);
  side.backward = std::min(side.backward, backward);
  side.total = std::min(side.total, forward + backward);
}

// Compares sums of what both sides computed, by row, so that the order of rows does not matter.
void check_equal(const Side& a, const Side& b) {
  const auto differ = [&](const char* what, double x, double y) {
    if (!(std::abs(x - y) <= kFarther * (1 + std::abs(x))))
      fail(ErrorCode::kInternal, "{} and {} disagree about the {}: {} and {}", a.name, b.name, what, x, y);
  };
  const auto weighted = [](std::span<const float> values) {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += values[i] * static_cast<double>(i % 7 + 1);
    return sum / std::sqrt(static_cast<double>(values.size()));
  };
  differ("output", weighted(a.peer->output()), weighted(b.peer->output()));
  const auto by_row = [](const LookupPeer& peer) {
    const std::vector<int64_t> rows = peer.gradient_rows();
    const std::span<const float> values = peer.gradient_values();
    const size_t dim = values.size() / rows.size();
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i)
      sum += values[i] * static_cast<double>((static_cast<size_t>(rows[i / dim]) + i % dim) % 7 + 1);
    return sum / std::sqrt(static_cast<double>(values.size()));
  };
  differ("gradient", by_row(*a.peer), by_row(*b.peer));
  differ("number of rows", static_cast<double>(a.peer->gradient_rows().size()),
         static_cast<double>(b.peer->gradient_rows().size()));
}

// Bytes a second when the rows of these ids are read, with prefetch, and next to nothing is done with them.
double row_bandwidth(std::span<const float> table, int64_t dim, const std::vector<LookupColumn>& columns) {
  constexpr size_t kAhead = 16;
  double best = INFINITY, bytes = 0;
  uint64_t mixed = 0;
  for (int round = 0; round < 3; ++round) {
    const auto begin = Clock::now();
    bytes = 0;
    for (const LookupColumn& column : columns) {
      const std::vector<int64_t>& ids = column.ids;
      for (size_t p = 0; p < ids.size(); ++p) {
        if (p + kAhead < ids.size())
          for (int64_t k = 0; k < dim; k += 16) __builtin_prefetch(table.data() + ids[p + kAhead] * dim + k);
        const float* row = table.data() + ids[p] * dim;
        for (int64_t k = 0; k < dim; k += 16) {
          uint64_t word;
          __builtin_memcpy(&word, row + k, sizeof word);
          mixed ^= word;
        }
      }
      bytes += static_cast<double>(ids.size()) * static_cast<double>(dim) * sizeof(float);
    }
    best = std::min(best, seconds_since(begin));
  }
  volatile uint64_t sink = mixed;
  static_cast<void>(sink);
  return bytes / best;
}

Json measure(const Point& point, std::span<const float> table, int steps) {
  const std::vector<LookupColumn> columns = columns_of(point);
  std::vector<float> gradient(static_cast<size_t>(kBatch * point.dim));
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 11) - 5;
  std::vector<Side> sides;
  sides.push_back({"ours_plain", std::make_unique<Ours>(table, point.dim, false)});
  sides.push_back({"embedding_bag", embedding_bag_peer(table, point.dim)});
  sides.push_back({"chain_plain", chain_peer(table, point.dim, Combiner::kMean)});
  sides.push_back({"ours_full", std::make_unique<Ours>(table, point.dim, true)});
  sides.push_back({"chain_full", chain_peer(table, point.dim, Combiner::kMean, kMaxNorm)});
  for (Side& side : sides) step(side, {columns.front()}, gradient);
  check_equal(sides[0], sides[1]);
  check_equal(sides[0], sides[2]);
  check_equal(sides[3], sides[4]);
  for (Side& side : sides) side.forward = side.backward = side.total = INFINITY;
  for (int i = 0; i < steps; ++i)
    for (Side& side : sides) step(side, columns, gradient);

  double ids = 0;
  for (const LookupColumn& column : columns) ids += static_cast<double>(column.ids.size());
  const double row_bytes = ids * static_cast<double>(point.dim) * sizeof(float);
  const double bandwidth = row_bandwidth(table, point.dim, columns);
  Json json{{"dim", point.dim},
            {"rows", point.rows},
            {"ids", ids},
            {"distribution", point.zipf ? "zipf" : "uniform"},
            {"row_bytes", row_bytes},
            {"row_bandwidth_bytes_per_s", bandwidth}};
  for (const Side& side : sides)
    json[side.name] = {{"forward_s", side.forward},
                       {"backward_s", side.backward},
                       {"total_s", side.total},
                       {"forward_share_of_row_bandwidth", row_bytes / side.forward / bandwidth},
                       {"total_ns_per_id", side.total / ids * 1e9}};
  json["ratios"] = {{"vs_chain_full", sides[4].total / sides[3].total},
                    {"vs_chain_plain", sides[2].total / sides[0].total},
                    {"vs_embedding_bag", sides[1].total / sides[0].total},
                    {"forward_vs_embedding_bag", sides[1].forward / sides[0].forward}};
  const Json& r = json["ratios"];
  const auto ns = [&](double s) { return s / ids * 1e9; };
  fmt::print(
      "{:>4} {:>9} {:>8}  {:5.1f} {:5.1f}  {:6.1f} {:6.1f}  {:6.1f} {:6.1f}   {:5.2f} {:5.2f} {:5.2f} "
      "{:5.2f}   {:4.0f}%\n",
      point.dim, point.rows, point.zipf ? "zipf" : "uniform", ns(sides[0].forward), ns(sides[0].backward),
      ns(sides[1].forward), ns(sides[1].backward), ns(sides[3].forward), ns(sides[3].backward),
      r["vs_chain_full"].get<double>(), r["vs_chain_plain"].get<double>(),
      r["vs_embedding_bag"].get<double>(), r["forward_vs_embedding_bag"].get<double>(),
      100 * row_bytes / sides[0].forward / bandwidth);
  std::fflush(stdout);
  return json;
}

double least(const Json& grid, const char* ratio) {
  double least = INFINITY;
  for (const Json& point : grid) least = std::min(least, point["ratios"][ratio].get<double>());
  return least;
}

}  // namespace

int bench_lookup(const BenchOptions& options) {
  set_threads(1);
  Json report = begin_report("lookup", options, options.quick ? "quick" : "");
  fmt::print(
      "ns per id, forward and backward      ours         embedding_bag   ours, full      total: chain  chain "
      "  bag   bag\n"
      " dim      rows      ids                                              (weights, norm)        full  "
      "plain       forward  share of row bandwidth\n");
  const std::vector<int64_t> sizes =
      options.quick ? std::vector<int64_t>{200'000} : std::vector<int64_t>{1'000'000, 10'000'000};
  for (const int64_t rows : sizes)
    for (const int64_t dim : {16, 64, 128}) {
      Table table(static_cast<size_t>(rows * dim));
      table.scale_to(dim);
      for (const bool zipf : {false, true})
        report["grid"].push_back(
            measure({dim, rows, zipf, options.quick ? 4 : 26}, table.values(), options.quick ? 2 : 4));
    }
  const Json& grid = report["grid"];
  report["targets"] = {
      target("lookup.vs_chain_full", geometric_mean(grid, "/ratios/vs_chain_full"), 8),
      target("lookup.vs_chain_plain", geometric_mean(grid, "/ratios/vs_chain_plain"), 6),
      target("lookup.vs_embedding_bag", geometric_mean(grid, "/ratios/vs_embedding_bag"), 3),
      target("lookup.min_forward_vs_embedding_bag", least(grid, "forward_vs_embedding_bag"), 1)};
  return end_report(report, options);
}

}  // namespace embers
