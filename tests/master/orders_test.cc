#include "master/state/events/orders.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace embers {
namespace {

using testing_support::expect_error;

TEST(Orders, ReachAMemberInTurnAndAgainUntilItHasReceivedThem) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  EXPECT_FALSE(orders.ask(7, 1, 0, 0, now));
  EXPECT_TRUE(orders.ready(now).empty()) << "nothing to say yet";
  EXPECT_EQ(orders.give(7, Order::What::kHold, 3, now), 1);
  EXPECT_EQ(orders.give(7, Order::What::kRelease, 3, now), 2);
  auto settled = orders.ready(now);
  ASSERT_EQ(settled.size(), 1);
  EXPECT_EQ(settled[0].ticket, 1);
  EXPECT_EQ(settled[0].order.number, 1);
  EXPECT_EQ(settled[0].order.what, Order::What::kHold);
  EXPECT_EQ(settled[0].order.value, 3);
  EXPECT_TRUE(orders.ready(now).empty()) << "nobody waits";

  orders.ask(7, 2, 0, 0, now);
  EXPECT_EQ(orders.ready(now).at(0).order.number, 1) << "the answer was lost";
  orders.ask(7, 3, 1, 0, now);
  EXPECT_EQ(orders.ready(now).at(0).order.number, 2) << "the next one, while it carries the first one out";
  EXPECT_FALSE(orders.carried_out(7, 1));
  orders.ask(7, 4, 2, 1, now);
  EXPECT_TRUE(orders.carried_out(7, 1));
  EXPECT_FALSE(orders.carried_out(7, 2));
  EXPECT_TRUE(orders.ready(now).empty()) << "it knows both";
}

TEST(Orders, AreGivenToOneMemberAloneWhenItAsks) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  orders.ask(7, 1, 0, 0, now);
  EXPECT_FALSE(orders.ready(7)) << "nothing to say yet";
  EXPECT_FALSE(orders.ready(8)) << "it has asked nothing";
  orders.give(7, Order::What::kDrain, 0, now);
  const auto settled = orders.ready(7);
  ASSERT_TRUE(settled);
  EXPECT_EQ(settled->ticket, 1);
  EXPECT_EQ(settled->order.number, 1);
  EXPECT_FALSE(orders.ready(7)) << "its request is answered";
  EXPECT_EQ(orders.waiting(), 0);
}

TEST(Orders, AreNoneAfterAWhile) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  const auto second = std::chrono::seconds(1);
  orders.ask(7, 1, 0, 0, now);
  orders.ask(8, 2, 0, 0, now + second);
  const auto settled = orders.ready(now + second);
  ASSERT_EQ(settled.size(), 1);
  EXPECT_EQ(settled[0].ticket, 1);
  EXPECT_EQ(settled[0].order.number, 0);
  EXPECT_EQ(orders.waiting(), 1);
}

TEST(Orders, HoldOneRequestOfEachMemberAndNothingOfOneThatIsForgotten) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  orders.ask(7, 1, 0, 0, now);
  EXPECT_EQ(orders.ask(7, 2, 0, 0, now), 1) << "the earlier one";
  orders.give(7, Order::What::kDrain, 0, now);
  EXPECT_EQ(orders.forget(7), 2);
  EXPECT_FALSE(orders.forget(7));
  EXPECT_TRUE(orders.ready(Time::max()).empty());
  EXPECT_FALSE(orders.carried_out(7, 1));
}

TEST(Orders, RefuseWhatWasNeverGiven) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  const auto refuses = [&](uint64_t received, uint64_t carried_out) {
    expect_error(ErrorCode::kInvalid, {"order"}, [&] { orders.ask(7, 1, received, carried_out, now); });
  };
  refuses(1, 0);
  orders.give(7, Order::What::kHold, 1, now);
  refuses(2, 0);
  refuses(0, 1);
  EXPECT_EQ(orders.waiting(), 0);
}

TEST(Orders, KnowWhoIsLate) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  const auto second = std::chrono::seconds(1);
  orders.give(7, Order::What::kHold, 1, now);
  orders.give(8, Order::What::kHold, 1, now + second);
  orders.give(9, Order::What::kHold, 1, now);
  orders.ask(9, 1, 1, 1, now);
  EXPECT_EQ(orders.late(now + second), std::vector<uint64_t>{7});
}
}  // namespace
}  // namespace embers
