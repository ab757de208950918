#include "master/state/events/waiting_list.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

Waiting request(uint64_t member) { return {100 + member, member, Time()}; }

std::vector<uint64_t> members(const WaitingList& list, WaitingList::Place from = 0) {
  std::vector<uint64_t> all;
  list.for_each([&](const Waiting& w) { all.push_back(w.incarnation); }, from);
  return all;
}

TEST(WaitingList, KeepsTheOrderAndFindsAMembersRequest) {
  WaitingList list;
  for (const uint64_t member : {5, 3, 9}) list.add(request(member));
  EXPECT_EQ(members(list), (std::vector<uint64_t>{5, 3, 9}));
  EXPECT_TRUE(list.contains(3));
  EXPECT_EQ(list.take(3), 103);
  EXPECT_FALSE(list.take(3));
  EXPECT_FALSE(list.contains(3));
  list.add(request(3));
  EXPECT_EQ(members(list), (std::vector<uint64_t>{5, 9, 3})) << "who asks again comes last";
  EXPECT_EQ(list.size(), 3);
  EXPECT_EQ(list.take_all().size(), 3);
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(list.contains(5));
}

TEST(WaitingList, LooksOnlyAtThoseThatCameLaterAndStopsWhenThereIsNoMore) {
  WaitingList list;
  list.add(request(1));
  list.add(request(2));
  const WaitingList::Place later = list.next();
  for (const uint64_t member : {3, 4, 5, 6}) list.add(request(member));
  EXPECT_EQ(members(list, later), (std::vector<uint64_t>{3, 4, 5, 6}));
  std::vector<uint64_t> asked;
  list.take_if([&](const Waiting& w) { return asked.push_back(w.incarnation), w.incarnation != 4; }, later,
               [&] { return asked.size() < 3; });
  EXPECT_EQ(asked, (std::vector<uint64_t>{3, 4, 5}));
  EXPECT_EQ(members(list), (std::vector<uint64_t>{1, 2, 4, 6}));
  EXPECT_FALSE(list.contains(3));
  EXPECT_TRUE(list.contains(4));
}

}  // namespace
}  // namespace embers
