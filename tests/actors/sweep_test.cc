#include "actors/transport/sweep.h"

#include <gtest/gtest.h>

#include <memory>

namespace embers {
namespace {

TEST(Sweep, KeepsAtMostHalfOfNoUseAndLooksAtEachAFewTimes) {
  Sweep sweep;
  std::vector<std::weak_ptr<int>> all;
  std::vector<std::shared_ptr<int>> used;
  size_t looks = 0;
  const auto is_gone = [&](const auto& weak) { return ++looks, weak.expired(); };
  constexpr size_t kAdded = 10000;
  for (size_t i = 0; i < kAdded; ++i) {
    sweep.before_adding(all, is_gone);
    const auto added = std::make_shared<int>();
    if (i % 4 == 0) used.push_back(added);
    all.push_back(added);
    EXPECT_LE(all.size(), 2 * used.size() + 32);
  }
  EXPECT_LE(looks, 4 * kAdded);
}

}  // namespace
}  // namespace embers
