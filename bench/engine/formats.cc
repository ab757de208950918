#include "bench/engine/formats.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/engine/table.h"
#include "bench/harness/bench.h"
#include "bench/harness/processes.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kDim = 64;
constexpr size_t kMinibatches = 64;

Contest::Try timed(Minibatches batches, const std::function<void()>& run) {
  return [=] {
    const double begin = cpu_seconds_of_this_thread();
    run();
    return Cost{(cpu_seconds_of_this_thread() - begin) / static_cast<double>(keys_of(batches))};
  };
}

}  // namespace

Json measure_formats(uint64_t rows, size_t rounds) {
  const auto batches = minibatches(kMinibatches, rows, false);
  struct Format {
    NumberType type;
    Rounding rounding;
    std::unique_ptr<Engine> engine;
    std::string name(const char* what) const {
      return fmt::format("{} {}, {}", what, embers::name(type), embers::name(rounding));
    }
  };
  std::vector<Format> formats;
  formats.push_back({NumberType::kFloat32, Rounding::kNearest, nullptr});
  for (const NumberType type : {NumberType::kFloat16, NumberType::kBfloat16})
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic})
      formats.push_back({type, rounding, nullptr});
  Contest contest;
  for (Format& f : formats) {
    f.engine = std::make_unique<Engine>(kDim, true, f.type, f.rounding);
    f.engine->fill(rows);
    contest.add(f.name("pull"), "", timed(batches, [&] { f.engine->pull(batches); }));
    contest.add(f.name("push"), "", timed(batches, [&] { f.engine->push(batches, 1e-6); }));
  }
  contest.warm_up();
  contest.measure(rounds);
  Json all = Json::array();
  for (const Format& f : formats) {
    const double pull = 1 / contest.seconds(f.name("pull")).value,
                 push = 1 / contest.seconds(f.name("push")).value;
    const double bytes = static_cast<double>(f.engine->store->resident_bytes()) / static_cast<double>(rows);
    fmt::print("{} rows, dim {}, rounded {}: pull {:.2f} M rows/s, push {:.2f}, {:.1f} bytes a row\n",
               name(f.type), kDim, name(f.rounding), pull / 1e6, push / 1e6, bytes);
    all.push_back({{"number_type", name(f.type)},
                   {"rounding", name(f.rounding)},
                   {"dim", kDim},
                   {"rows", rows},
                   {"pull_rows_per_s", pull},
                   {"push_rows_per_s", push},
                   {"bytes_per_row", bytes}});
  }
  return all;
}

Estimate measure_two_shards(uint64_t rows, size_t rounds) {
  const auto batches = minibatches(kMinibatches, rows, false);
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 2; ++i) {
    engines.push_back(std::make_unique<Engine>(kDim, true));
    engines.back()->fill(rows);
  }
  // Seconds for the work of one.
  const auto run = [&](size_t count) {
    std::vector<std::thread> threads;
    const auto begin = BenchClock::now();
    for (size_t i = 0; i < count; ++i)
      threads.emplace_back([&, &engine = *engines[i]] {
        for (int round = 0; round < 4; ++round)
          for (const auto& batch : batches) {
            engine.pull({&batch, 1});
            engine.push({&batch, 1}, 1e-6);
          }
      });
    for (std::thread& thread : threads) thread.join();
    return Cost{seconds_since(begin) / static_cast<double>(count)};
  };
  Contest contest;
  add_with_policies(contest, "one", "", set_policy_of_this_process, [&] { return run(1); });
  add_with_policies(contest, "two", "", set_policy_of_this_process, [&] { return run(2); });
  contest.warm_up();
  contest.measure(rounds);
  set_policy_of_this_process(Policy::kOther);
  return contest.speed("two", "one");
}

}  // namespace embers
