// Who is in the job: each member is found by its incarnation, and nobody else.
#include "master/state/membership.h"

#include <gtest/gtest.h>

#include <utility>

namespace embers {
namespace {

constexpr uint64_t kMany = 9000;  // more than are kept near

Membership with_gaps() {
  Membership members;
  for (uint64_t i = 1; i <= kMany; ++i) {
    Member reader;
    reader.reader = true;
    reader.link = i;
    EXPECT_EQ(members.add(reader, {}).incarnation, i);
  }
  for (uint64_t i = 3; i <= kMany; i += 3) members.remove(i);
  return members;
}

void expect_gaps(const Membership& members) {
  for (uint64_t i = 1; i <= kMany; ++i) {
    const Member* const found = members.find(i);
    if (i % 3 == 0) {
      EXPECT_EQ(found, nullptr) << i;
    } else {
      ASSERT_NE(found, nullptr) << i;
      EXPECT_EQ(found, &members.all().at(i));  // its own, also in a copy
    }
  }
  for (const uint64_t nobody : {uint64_t{0}, kMany + 1, uint64_t{1} << 32, UINT64_MAX})
    EXPECT_EQ(members.find(nobody), nullptr) << nobody;
}

TEST(Membership, FindsThoseWhoAreThere) {
  Membership members = with_gaps();
  expect_gaps(members);
  const Membership copy = members;
  expect_gaps(copy);
  const Membership moved = std::move(members);
  expect_gaps(moved);
}

TEST(Membership, FindsTheLatestOfThoseWhoShareAPlaceNearBy) {
  Membership members = with_gaps();
  members.remove(kMany - 1);         // kMany - 1 - 4096 was there before it
  members.remove(kMany - 1 - 4096);  // and goes
  EXPECT_EQ(members.find(kMany - 1), nullptr);
  EXPECT_EQ(members.find(kMany - 1 - 4096), nullptr);
  EXPECT_NE(members.find(kMany - 2), nullptr);
}

}  // namespace
}  // namespace embers
