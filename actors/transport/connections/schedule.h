#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <utility>  // Boost 1.74's Asio forgets it
#include <vector>

#include <boost/asio.hpp>

namespace embers {

// Calls functions once in an interval each. All of them share one timer, and what is due at about the same
// time is called together: thousands of connections need not wake the loop thousands of times a second.
//
// *Thread safety*: none; on the loop's thread.
class Schedule {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Schedule(boost::asio::io_context& context) : timer_(context) {}
  // For the first time after an interval, or up to a sixteenth of it later; until `call` returns false.
  void every(Clock::duration interval, std::function<bool()> call);

 private:
  struct Entry {
    Clock::duration interval;
    std::function<bool()> call;
  };
  Clock::time_point next(Clock::time_point now, Clock::duration interval) const;
  void wait();
  void run();

  const Clock::time_point begin_ = Clock::now();  // moments count from it: each process has its own
  std::map<Clock::time_point, std::vector<Entry>> due_;
  Clock::time_point awaited_ = Clock::time_point::max();  // by the timer
  boost::asio::steady_timer timer_;
};

}  // namespace embers
