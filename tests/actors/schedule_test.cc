#include "actors/transport/connections/schedule.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

using namespace std::chrono_literals;

class Scheduled : public testing::Test {
 protected:
  // As long as something is still called.
  void run() { io_.run(); }

  boost::asio::io_context io_;
  Schedule schedule_{io_};
};

TEST_F(Scheduled, IsCalledUntilItSaysNo) {
  int calls = 0;
  schedule_.every(1ms, [&] { return ++calls < 5; });
  run();
  EXPECT_EQ(calls, 5);
}

TEST_F(Scheduled, WaitsForItsInterval) {
  const auto begin = Schedule::Clock::now();
  int calls = 0;
  schedule_.every(10ms, [&] {
    EXPECT_GE(Schedule::Clock::now() - begin, 10ms * (calls + 1));
    return ++calls < 3;
  });
  run();
  EXPECT_EQ(calls, 3);
}

// The one that is due first comes first, whenever it was added.
TEST_F(Scheduled, HasAnIntervalOfItsOwn) {
  std::string order;
  schedule_.every(1s, [&] { return order += 'l', false; });
  schedule_.every(1ms, [&] { return order += 's', order.size() < 3; });
  run();
  EXPECT_EQ(order, "sssl");
}

TEST_F(Scheduled, SharesMomentsWithOthers) {
  std::vector<int> calls(1000);
  for (int& of_one : calls) schedule_.every(2ms, [&] { return ++of_one < 4; });
  run();
  EXPECT_EQ(calls, std::vector<int>(1000, 4));
}

TEST_F(Scheduled, LetsOthersRunWhereManyAreDueAtOnce) {
  int calls = 0, calls_before = -1;
  const auto other = [&] { calls_before = calls; };
  for (int i = 0; i < 1000; ++i)
    schedule_.every(1ms, [&] {
      if (++calls == 1) boost::asio::post(io_, other);
      return false;
    });
  run();
  EXPECT_EQ(calls, 1000);
  EXPECT_LT(calls_before, 1000);
}

TEST_F(Scheduled, MayBeAddedByOneThatIsCalled) {
  int calls = 0;
  schedule_.every(1ms, [&] {
    schedule_.every(1ms, [&] { return ++calls < 4; });
    return false;
  });
  run();
  EXPECT_EQ(calls, 4);
}

TEST_F(Scheduled, MayBeAddedWhileItRuns) {
  int calls = 0;
  schedule_.every(1ms, [&] { return ++calls < 2; });
  boost::asio::post(io_, [&] { schedule_.every(1ms, [&] { return ++calls < 4; }); });
  run();
  EXPECT_GE(calls, 4);
}

}  // namespace
}  // namespace embers
