#include "bench/harness/contest.h"

#include <algorithm>

#include "base/errors.h"

namespace embers {

using Json = nlohmann::json;

std::vector<size_t> order_of_turn(size_t sides, size_t round) {
  std::vector<size_t> order;
  for (size_t i = 0; i < sides; ++i) order.push_back(round % 2 == 0 ? i : sides - 1 - i);
  return order;
}

Json spread(const std::vector<double>& values) {
  const Estimate middle = median_estimate(values);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"median", middle.value}, {"low", middle.low}, {"high", middle.high},
          {"least", *least},        {"most", *most},     {"tries", values.size()}};
}

bool Contest::is_faster(const Configuration& a, const Configuration& b) {
  return median(a.seconds) < median(b.seconds);
}
bool Contest::is_thriftier(const Configuration& a, const Configuration& b) {
  return median(a.cpu_seconds) < median(b.cpu_seconds);
}

void Contest::add(const std::string& side, const std::string& configuration, Try run) {
  auto at = std::find_if(sides_.begin(), sides_.end(), [&](const Side& s) { return s.name == side; });
  if (at == sides_.end()) at = sides_.insert(at, {side, {}, Json::object()});
  at->configurations.push_back({configuration, std::move(run), {}, {}});
}

void Contest::run(size_t rounds) {
  std::vector<Configuration*> all;
  for (Side& side : sides_)
    for (Configuration& c : side.configurations) all.push_back(&c);
  for (size_t round = 0; round < rounds; ++round)
    for (const size_t i : order_of_turn(all.size(), rounds_++)) {
      const Cost cost = all[i]->run();
      all[i]->seconds.push_back(cost.seconds);
      all[i]->cpu_seconds.push_back(cost.cpu_seconds);
    }
}

void Contest::forget() {
  for (Side& side : sides_)
    for (Configuration& c : side.configurations) {
      c.seconds.clear();
      c.cpu_seconds.clear();
    }
  rounds_ = 0;
}

void Contest::warm_up() {
  run(1);
  forget();
}

// Of many configurations with few tries each, one that was lucky may look best. So luck is forgotten.
void Contest::choose(size_t tries, bool and_thriftiest) {
  constexpr size_t kFinalists = 3;
  run(tries);
  if (keep_best(kFinalists, and_thriftiest)) {
    forget();
    run(tries + 1);
  }
  keep_best(1, and_thriftiest);
  forget();
}

bool Contest::keep_best(size_t most, bool and_thriftiest) {
  bool left_out = false;
  for (Side& side : sides_) {
    std::vector<Configuration>& all = side.configurations;
    for (const Configuration& c : all) side.tried[c.name] = median(c.seconds);
    std::stable_sort(all.begin(), all.end(), is_faster);
    if (all.size() <= most) continue;
    left_out = true;
    auto end = all.begin() + static_cast<std::ptrdiff_t>(most);
    if (and_thriftiest)
      if (const auto at = std::min_element(all.begin(), all.end(), is_thriftier); at >= end)
        std::iter_swap(at, end++);
    all.erase(end, all.end());
  }
  return left_out;
}

void Contest::measure(size_t rounds) {
  run(rounds);
  for (Side& side : sides_)
    if (side.configurations.size() > 1)
      for (const Configuration& c : side.configurations) side.tried[c.name] = median(c.seconds);
}

const Contest::Side& Contest::at(const std::string& side) const {
  for (const Side& s : sides_)
    if (s.name == side) return s;
  fail(ErrorCode::kInternal, "the benchmark has no side '{}'", side);
}

const Contest::Configuration& Contest::best(const std::string& side) const {
  const auto& all = at(side).configurations;
  return *std::min_element(all.begin(), all.end(), is_faster);
}

const Contest::Configuration& Contest::thriftiest(const std::string& side) const {
  const auto& all = at(side).configurations;
  return *std::min_element(all.begin(), all.end(), is_thriftier);
}

Estimate Contest::seconds(const std::string& side) const { return median_estimate(best(side).seconds); }
Estimate Contest::cpu_seconds(const std::string& side) const {
  return median_estimate(best(side).cpu_seconds);
}

Estimate Contest::speed(const std::string& side, const std::string& other) const {
  return ratio_of_medians(best(other).seconds, best(side).seconds);
}

Estimate Contest::thrift(const std::string& side, const std::string& other) const {
  return ratio_of_medians(thriftiest(other).cpu_seconds, thriftiest(side).cpu_seconds);
}

std::string Contest::fastest(const std::vector<std::string>& sides) const {
  return *std::min_element(sides.begin(), sides.end(), [&](const std::string& a, const std::string& b) {
    return median(best(a).seconds) < median(best(b).seconds);
  });
}

std::string Contest::configuration(const std::string& side) const { return best(side).name; }

Json Contest::json() const {
  Json json;
  for (const Side& side : sides_) {
    const Configuration& c = best(side.name);
    json[side.name] = {{"configuration", c.name}, {"seconds", spread(c.seconds)}, {"tried", side.tried}};
    if (median(c.cpu_seconds) == 0) continue;
    json[side.name]["cpu_seconds"] = spread(c.cpu_seconds);
    if (const Configuration& t = thriftiest(side.name); t.name != c.name)
      json[side.name]["thriftiest"] = {{"configuration", t.name}, {"cpu_seconds", spread(t.cpu_seconds)}};
  }
  return json;
}

}  // namespace embers
