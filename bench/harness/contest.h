#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/harness/statistics.h"

namespace embers {

// The order of the sides in a round: there in even rounds and back in odd ones (A B C, C B A, ...), so that
// what gets slower or faster in the course of a run does so for all of them.
std::vector<size_t> order_of_turn(size_t sides, size_t round);

// What a try cost, for one unit of the benchmark's work: a key, a trip, a row.
struct Cost {
  double seconds = 0;      // by the clock, or as the benchmark says
  double cpu_seconds = 0;  // of all threads and processes of the side; 0 where nobody asks
};

// Sides that do the same work in turns. A side has one or more configurations (numbers of threads, scheduling
// policies, sizes of buffers); each configuration gets the same number of tries, whosesoever it is. Where
// there are many, choose() lets those with the best medians go on alone: what counts is measured afterwards,
// so that a side with more configurations has no more luck.
class Contest {
 public:
  using Try = std::function<Cost()>;

  // Sides come in the order of their first configuration. Names of a side's configurations differ.
  void add(const std::string& side, const std::string& configuration, Try run);

  void warm_up();  // one try of each, which does not count
  // So many tries of each. Where a side has more than three configurations, its best three go on alone: what
  // they had is forgotten, and as many tries and one more decide. Then only each side's fastest configuration
  // is left; with `and_thriftiest`, also the one that took least CPU seconds, where that is another.
  void choose(size_t tries, bool and_thriftiest = false);
  void measure(size_t rounds);

  // Of what was measured; a side with several configurations left stands for the one with the best median.

  Estimate seconds(const std::string& side) const;
  Estimate cpu_seconds(const std::string& side) const;
  // How many times as fast `side` is as `other`: seconds of the other over its own.
  Estimate speed(const std::string& side, const std::string& other) const;
  // The same of CPU seconds, where each side stands for the configuration that took least of them.
  Estimate thrift(const std::string& side, const std::string& other) const;
  // The fastest of these sides.
  std::string fastest(const std::vector<std::string>& sides) const;
  std::string configuration(const std::string& side) const;

  // For each side: `configuration`, `seconds` and, where asked for, `cpu_seconds` (spread()) of what was
  // measured, `thriftiest` (`configuration`, `cpu_seconds`) where that is another one, and `tried`, the
  // median seconds of each configuration, of the tries that decided on it.
  nlohmann::json json() const;

 private:
  struct Configuration {
    std::string name;
    Try run;
    std::vector<double> seconds, cpu_seconds;
  };
  struct Side {
    std::string name;
    std::vector<Configuration> configurations;
    nlohmann::json tried;
  };

  static bool is_faster(const Configuration& a, const Configuration& b);
  static bool is_thriftier(const Configuration& a, const Configuration& b);
  void run(size_t rounds);
  void forget();
  // Leaves so many configurations of each side, the fastest ones, and perhaps the thriftiest; whether any had
  // more.
  bool keep_best(size_t most, bool and_thriftiest);
  const Side& at(const std::string& side) const;
  const Configuration& best(const std::string& side) const;
  const Configuration& thriftiest(const std::string& side) const;

  std::vector<Side> sides_;
  size_t rounds_ = 0;  // so far, so that rounds measured one by one go there and back, too
};

// {median, low, high, least, most, tries}: the interval of the median, and the range.
nlohmann::json spread(const std::vector<double>& values);

}  // namespace embers
