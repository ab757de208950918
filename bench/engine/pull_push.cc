#include "bench/engine/pull_push.h"

#include <cmath>
#include <string>

#include "bench/engine/floors.h"
#include "bench/harness/bench.h"
#include "bench/harness/compare.h"
#include "bench/harness/processes.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kCheckedPushes = 16;  // minibatches
constexpr double kFarther = 1e-6;      // rows of 0.5 that Adam has changed by a thousandth
constexpr double kOfSquares = 1e-3;    // of their own size, which is small
constexpr size_t kTries = 2;       // of each way, with a part of the minibatches, before the best one goes on
constexpr size_t kChoosing = 512;  // minibatches, at most
constexpr size_t kUnderWay = 3;    // minibatches that have been pulled when one is pushed
constexpr size_t kNoted = 16;      // pulls whose places a table keeps for their pushes
constexpr Ahead kCopiedAhead{16, true};  // where a floor's pull does not count

std::vector<float> rows_at(std::span<const Place> places, size_t floats) {
  std::vector<float> all;
  for (const Place& place : places) all.insert(all.end(), place.row, place.row + floats);
  return all;
}

void check_pulls(Engine& engine, Minibatches batches, const Places& places) {
  for (size_t b = 0; b < batches.size(); ++b) {
    engine.pull(batches.subspan(b, 1));
    const std::vector<float> there = rows_at(places[b], engine.dim);
    check_equal("pulled rows", {"embers", std::span(engine.out).first(there.size())}, {"the floor", there});
  }
}

// One step of Adam on rows with their slots.
void adam(std::vector<float>& rows, size_t dim, uint64_t step, double learning_rate,
          std::span<const float> grads) {
  const auto t = static_cast<double>(step);
  const double rate = learning_rate * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
  for (size_t row = 0; row < rows.size(); row += 3 * dim)
    for (size_t k = row; k < row + dim; ++k) {
      const double grad = grads[row / 3 + k - row];
      const double m = rows[k + dim] + (grad - rows[k + dim]) * 0.1;
      const double v = rows[k + 2 * dim] + (grad * grad - rows[k + 2 * dim]) * 0.001;
      rows[k + dim] = static_cast<float>(m);
      rows[k + 2 * dim] = static_cast<float>(v);
      rows[k] = static_cast<float>(rows[k] - rate * m / (std::sqrt(v) + 1e-7));
    }
}

// Adam's second slots, of rows with their slots.
std::vector<float> squares_in(const std::vector<float>& rows, size_t dim) {
  std::vector<float> squares;
  for (auto row = rows.begin(); row != rows.end(); row += static_cast<ptrdiff_t>(3 * dim))
    squares.insert(squares.end(), row + static_cast<ptrdiff_t>(2 * dim),
                   row + static_cast<ptrdiff_t>(3 * dim));
  return squares;
}

// Half of them as they are timed, behind pulls; the others search.
void check_pushes(Engine& engine, Minibatches batches, const Places& places) {
  for (size_t b = 0; b < std::min(kCheckedPushes, batches.size()); ++b) {
    if (b < kCheckedPushes / 2) engine.pull(batches.subspan(b, std::min(kUnderWay, batches.size() - b)));
    std::vector<float> wanted = rows_at(places[b], 3 * engine.dim);
    engine.push(batches.subspan(b, 1), 0.001);
    adam(wanted, engine.dim, engine.steps, 0.001, engine.grads);
    const std::vector<float> pushed = rows_at(places[b], 3 * engine.dim);
    check_equal("pushed rows", {"embers", pushed}, {"the formula", wanted}, kFarther);
    check_close("pushed squares", {"embers", squares_in(pushed, engine.dim)},
                {"the formula", squares_in(wanted, engine.dim)}, kOfSquares);
  }
}

// The first minibatches, as many as are used at present.
struct Used {
  Minibatches all;
  size_t count, keys;
  explicit Used(Minibatches batches) : all(batches) { use(batches.size()); }
  void use(size_t n) {
    count = std::min(n, all.size());
    keys = keys_of(now());
  }
  Minibatches now() const { return all.first(count); }
};

// Does something with each minibatch that is used.
Contest::Try timed(
    const Used& used, const std::function<void(size_t minibatch)>& run,
    const std::function<void()>& prepare = [] {}) {
  return [&used, run, prepare] {
    prepare();
    const double begin = cpu_seconds_of_this_thread();
    for (size_t b = 0; b < used.count; ++b) run(b);
    return Cost{(cpu_seconds_of_this_thread() - begin) / static_cast<double>(used.keys)};
  };
}

// As in a job: each minibatch is pulled, and pushed when some more have been pulled. Only pushes count.
Contest::Try timed_pushes(const Used& used, const std::function<void(size_t minibatch)>& pull,
                          const std::function<void(size_t minibatch)>& push) {
  return [&used, pull, push] {
    double seconds = 0;
    for (size_t b = 0; b < used.count + kUnderWay; ++b) {
      if (b < used.count) pull(b);
      if (b < kUnderWay) continue;
      const double begin = cpu_seconds_of_this_thread();
      push(b - kUnderWay);
      seconds += cpu_seconds_of_this_thread() - begin;
    }
    return Cost{seconds / static_cast<double>(used.keys)};
  };
}

}  // namespace

PullPush measure_pull_push(Engine& engine, const PullPushPoint& point, size_t count, size_t rounds) {
  const auto batches = minibatches(count, engine.rows(), point.zipf);
  const Places places(engine, batches);
  const size_t dim = point.dim;
  check_pulls(engine, batches, places);
  if (point.push) check_pushes(engine, batches, places);
  Contest contest;
  Used used(batches);
  volatile unsigned sink = 0;
  const auto pull = [&](size_t b) { engine.pull(Minibatches(batches).subspan(b, 1)); };
  const auto push = [&](size_t b) { engine.push(Minibatches(batches).subspan(b, 1), 1e-6); };
  const auto copy = [&](Ahead ahead) {
    return [&, ahead](size_t b) { sink = sink + pull_floor(places[b], dim, ahead, engine.out.data()); };
  };
  contest.add("pull", "", timed(used, pull));
  for (const Ahead& ahead : ways_ahead()) contest.add("pull_floor", name(ahead), timed(used, copy(ahead)));
  if (point.push) {
    contest.add("push", "", timed_pushes(used, pull, push));
    contest.add("push_without_pull", "", timed(used, push, [&] {
                  for (size_t b = used.count - std::min(kNoted, used.count); b < used.count; ++b) push(b);
                }));
    for (const PushWay way : kPushWays)
      for (const Ahead& ahead : ways_ahead())
        contest.add("push_floor", name(ahead) + name(way),
                    timed_pushes(used, copy(kCopiedAhead), [&, ahead, way](size_t b) {
                      sink = sink + push_floor(places[b], dim, ahead, way, engine.grads.data());
                    }));
  }
  used.use(kChoosing);
  contest.choose(kTries);
  used.use(batches.size());
  contest.measure(rounds);
  check_pulls(engine, Minibatches(batches).first(1), places);

  PullPush result;
  result.report = {{"dim", dim},
                   {"rows", engine.rows()},
                   {"distribution", point.zipf ? "zipf" : "uniform"},
                   {"sides", contest.json()}};
  fmt::print("{:>4} {:>10} {:>8} ", dim, engine.rows(), point.zipf ? "zipf" : "uniform");
  const auto note = [&](const std::string& what) {
    const Estimate ratio = contest.speed(what, what + "_floor");
    for (const std::string& side : {what, what + "_floor"}) {
      const double seconds = contest.seconds(side).value;
      result.report[side + "_rows_per_s"] = 1 / seconds;
      result.report[side + "_ns"] = seconds * 1e9;
      fmt::print(" {:7.1f}", seconds * 1e9);
    }
    result.report[what + "_vs_floor"] = ratio.value;
    fmt::print(" {:5.2f}  ", ratio.value);
    return ratio;
  };
  result.pull_vs_floor = note("pull");
  if (point.push) {
    result.push_vs_floor = note("push");
    const double searching = contest.seconds("push_without_pull").value * 1e9;
    result.report["push_without_pull_ns"] = searching;
    fmt::print(" {:7.1f}", searching);
  }
  fmt::print("\n");
  std::fflush(stdout);
  return result;
}

}  // namespace embers
