// embers bench lookup: the fused lookup operators compared with libtorch's, in one run on one thread each.
//
// 26 columns x batch 4096 x 1 to 20 ids (each number equally likely), combiner mean, over one table that the
// columns share; dim 16, 64 and 128; ids uniform, or Zipf (exponent 1, ranks scattered over the table); 1 M
// and 10 M rows. A *step* is the forward pass of a column and then its backward pass, for all columns;
// forward passes are also measured alone. The unit is an id. Each side has every way that we know to do it
// with its operators; the best one counts. All sides read the same table in huge pages, and their own memory
// is in huge pages, too. Outputs and gradients of every column are compared, those of every way of every
// side.
//
//   lookup.vs_chain_full, lookup.vs_chain_plain   steps: libtorch's chain of operators over ours, with
//   weights
//                            and max_norm, and without; the geometric mean of all points
//   lookup.vs_embedding_bag  steps: libtorch's embedding_bag, in the best of four ways to a gradient
//   lookup.min_forward_vs_embedding_bag   forward passes, the least of all points
//
// Limits: see lookup_floor.h.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/errors.h"
#include "base/tune_malloc.h"
#include "bench/harness/bench.h"
#include "bench/harness/compare.h"
#include "bench/models/fused_peer.h"
#include "bench/models/lookup_floor.h"
#include "bench/models/max_norm.h"
#include "model/step.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr int64_t kBatch = 4096;
constexpr int64_t kMostIds = 20;
constexpr float kMaxNorm = 0.55f;  // about half of the rows are longer
constexpr double kFarther = 1e-4;  // results that differ by more are an error

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
    const auto width = static_cast<size_t>(dim);
    for (size_t at = 0; at < floats_; at += width) keep_clear(kMaxNorm, std::span(data_ + at, width));
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

// How long a comparison is.
struct Length {
  size_t tries, rounds;
};

// The sides at one point.
class Comparison {
 public:
  Comparison(const Point& point, std::span<const float> table)
      : point_(point), columns_(columns_of(point)), gradient_(static_cast<size_t>(kBatch * point.dim)) {
    for (size_t i = 0; i < gradient_.size(); ++i) gradient_[i] = static_cast<float>(i % 11) - 5;
    for (const LookupColumn& column : columns_) ids_ += static_cast<double>(column.ids.size());
    add("ours_plain", "", fused_peer(table, point.dim, Combiner::kMean));
    for (const BagWay way : kBagWays)
      add("embedding_bag", name(way), embedding_bag_peer(table, point.dim, Combiner::kMean, way));
    for (const ChainWay& way : kChainWays)
      add("chain_plain", name(way), chain_peer(table, point.dim, Combiner::kMean, way));
    add_floor("floor", table, {});
    add_floor("floor_full", table, kMaxNorm);
    add("ours_full", "", fused_peer(table, point.dim, Combiner::kMean, kMaxNorm));
    for (const ChainWay& way : kChainWays)
      add("chain_full", name(way), chain_peer(table, point.dim, Combiner::kMean, way, kMaxNorm));
  }

  // Every column, on every side and in every way.
  void check() {
    for (const LookupColumn& column : columns_) {
      const Checked* plain = nullptr;
      const Checked* full = nullptr;
      for (const Checked& side : checked_) {
        side.prepare();
        side.peer->forward(column);
        side.peer->backward(gradient_);
        const Checked*& first = side.side.ends_with("_full") ? full : plain;
        if (first == nullptr) {
          first = &side;
          continue;
        }
        const auto where = [&](const char* what) {
          return fmt::format("{} of column {}, dim {}", what, &column - columns_.data(), point_.dim);
        };
        check_close(where("output"), SideResult{first->side, first->peer->output()},
                    SideResult{side.name(), side.peer->output()}, kFarther);
        check_close(where("gradient"),
                    SideRows{first->side, first->peer->gradient_rows(), first->peer->gradient_values()},
                    SideRows{side.name(), side.peer->gradient_rows(), side.peer->gradient_values()},
                    kFarther);
      }
    }
  }

  Json measure(const Length& length, Json& limits) {
    for (Contest* const contest : {&steps_, &forwards_}) {
      contest->choose(length.tries);
      contest->measure(length.rounds);
    }
    const std::string where = fmt::format("dim {}, {} rows, {}", point_.dim, point_.rows, distribution());
    limits.push_back(limit("lookup.step, " + where, steps_.speed("ours_plain", "floor")));
    limits.push_back(limit("lookup.full step, " + where, steps_.speed("ours_full", "floor_full")));
    limits.push_back(limit("lookup.forward, " + where, forwards_.speed("ours_plain", "floor")));
    limits.push_back(limit("lookup.full forward, " + where, forwards_.speed("ours_full", "floor_full")));
    vs_chain_full = steps_.speed("ours_full", "chain_full");
    vs_chain_plain = steps_.speed("ours_plain", "chain_plain");
    vs_embedding_bag = steps_.speed("ours_plain", "embedding_bag");
    forward_vs_embedding_bag = forwards_.speed("ours_plain", "embedding_bag");
    limit_full = steps_.speed("floor_full", "chain_full");
    limit_plain = steps_.speed("floor", "chain_plain");
    limit_bag = steps_.speed("floor", "embedding_bag");
    limit_forward = forwards_.speed("floor", "embedding_bag");
    print();
    const auto ratio = [](const Estimate& e) {
      return Json{{"median", e.value}, {"low", e.low}, {"high", e.high}};
    };
    return {{"dim", point_.dim},
            {"rows", point_.rows},
            {"ids", ids_},
            {"distribution", distribution()},
            {"sides", steps_.json()},
            {"forward", forwards_.json()},
            {"ratios",
             {{"vs_chain_full", ratio(vs_chain_full)},
              {"vs_chain_plain", ratio(vs_chain_plain)},
              {"vs_embedding_bag", ratio(vs_embedding_bag)},
              {"forward_vs_embedding_bag", ratio(forward_vs_embedding_bag)}}}};
  }

  // Once it is measured. The limits are what the ratio would be for the floor.
  Estimate vs_chain_full, vs_chain_plain, vs_embedding_bag, forward_vs_embedding_bag;
  Estimate limit_full, limit_plain, limit_bag, limit_forward;

 private:
  struct Checked {
    std::string side, way;
    LookupPeer* peer;
    std::function<void()> prepare;
    std::string name() const { return way.empty() ? side : side + ", " + way; }
  };

  const char* distribution() const { return point_.zipf ? "zipf" : "uniform"; }

  void add(const std::string& side, const std::string& way, std::unique_ptr<LookupPeer> peer) {
    add(side, way, peer.get(), [] {});
    peers_.push_back(std::move(peer));
  }

  void add(const std::string& side, const std::string& way, LookupPeer* peer,
           const std::function<void()>& prepare) {
    checked_.push_back({side, way, peer, prepare});
    steps_.add(side, way, [this, peer, prepare] {
      prepare();
      return run(*peer, true);
    });
    if (!side.starts_with("chain"))
      forwards_.add(side, way, [this, peer, prepare] {
        prepare();
        return run(*peer, false);
      });
  }

  void add_floor(const char* side, std::span<const float> table, std::optional<float> max_norm) {
    auto peer = std::make_unique<LookupFloor>(table, point_.dim, columns_, max_norm);
    LookupFloor* const floor = peer.get();
    for (const LookupFloor::Way& way : LookupFloor::ways(max_norm.has_value()))
      add(side, way.name(), floor, [floor, way] { floor->set(way); });
    peers_.push_back(std::move(peer));
  }

  Cost run(LookupPeer& peer, bool backward) const {
    const auto begin = BenchClock::now();
    for (const LookupColumn& column : columns_) {
      peer.forward(column);
      if (backward) peer.backward(gradient_);
    }
    return {seconds_since(begin) / ids_};
  }

  void print() const {
    const auto ns = [](const Contest& contest, const std::string& side) {
      return contest.seconds(side).value * 1e9;
    };
    fmt::print("{:>4} {:>9} {:>8} ", point_.dim, point_.rows, distribution());
    for (const char* const side : {"ours_plain", "floor", "embedding_bag"})
      fmt::print(" {:6.1f} {:6.1f} ", ns(forwards_, side), ns(steps_, side));
    for (const char* const side : {"chain_plain", "ours_full", "floor_full", "chain_full"})
      fmt::print(" {:6.1f}", ns(steps_, side));
    fmt::print("   {:5.2f} {:5.2f} {:5.2f} {:5.2f}   {} | {} | {}\n", vs_chain_full.value,
               vs_chain_plain.value, vs_embedding_bag.value, forward_vs_embedding_bag.value,
               steps_.configuration("chain_full"), steps_.configuration("chain_plain"),
               steps_.configuration("embedding_bag"));
    std::fflush(stdout);
  }

  const Point point_;
  const std::vector<LookupColumn> columns_;
  std::vector<float> gradient_;  // of each column's output
  double ids_ = 0;
  std::vector<std::unique_ptr<LookupPeer>> peers_;
  std::vector<Checked> checked_;
  Contest steps_, forwards_;
};

size_t index_of_least(const std::vector<Estimate>& figures) {
  const auto at = std::min_element(figures.begin(), figures.end(),
                                   [](const Estimate& a, const Estimate& b) { return a.value < b.value; });
  return static_cast<size_t>(at - figures.begin());
}

}  // namespace

int bench_lookup(const BenchOptions& options) {
  set_threads(1);
  Json report = begin_report("lookup", options, options.quick ? "quick" : "");
  fmt::print(
      "ns an id                  ours           floor          embedding_bag  chain  ours   floor  chain"
      "    ours is times as fast as\n"
      " dim      rows      ids  forward  step  forward  step  forward  step  plain  full   full   full "
      "    chains full, plain, bag, bag forward\n");
  const std::vector<int64_t> sizes =
      options.quick ? std::vector<int64_t>{200'000} : std::vector<int64_t>{1'000'000, 10'000'000};
  need_memory(static_cast<uint64_t>(sizes.back()) * 128 * sizeof(float) + (uint64_t{2} << 30),
              "embers bench lookup", "try --quick");
  ask_for_huge_pages();
  const Length length = options.quick ? Length{1, 3} : Length{2, 7};
  std::array<std::vector<Estimate>, 4> ratios, limits;
  for (const int64_t rows : sizes)
    for (const int64_t dim : {16, 64, 128}) {
      Table table(static_cast<size_t>(rows * dim));
      table.scale_to(dim);
      for (const bool zipf : {false, true}) {
        Comparison comparison({dim, rows, zipf, options.quick ? 4 : 26}, table.values());
        comparison.check();
        report["grid"].push_back(comparison.measure(length, report["limits"]));
        const std::array ratio{comparison.vs_chain_full, comparison.vs_chain_plain,
                               comparison.vs_embedding_bag, comparison.forward_vs_embedding_bag};
        const std::array of_floor{comparison.limit_full, comparison.limit_plain, comparison.limit_bag,
                                  comparison.limit_forward};
        for (size_t i = 0; i < ratio.size(); ++i) {
          ratios[i].push_back(ratio[i]);
          limits[i].push_back(of_floor[i]);
        }
      }
    }
  const std::array<std::pair<const char*, double>, 3> wanted{
      {{"lookup.vs_chain_full", 8}, {"lookup.vs_chain_plain", 6}, {"lookup.vs_embedding_bag", 3}}};
  for (size_t i = 0; i < wanted.size(); ++i)
    report["targets"].push_back(
        target(wanted[i].first, geometric_mean(ratios[i]), wanted[i].second, geometric_mean(limits[i])));
  const size_t worst = index_of_least(ratios[3]);
  report["targets"].push_back(
      target("lookup.min_forward_vs_embedding_bag", ratios[3][worst], 1, limits[3][worst]));
  return end_report(report, options);
}

}  // namespace embers
