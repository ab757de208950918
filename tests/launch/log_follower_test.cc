// What members append to their logs, as the launcher shows it.
#include "apps/launch/log_follower.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace embers::launch {
namespace {

using Lines = std::vector<std::string>;

class LogFollowerTest : public testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  Lines poll() {
    follower_.poll();
    return std::exchange(lines_, {});
  }

  testing_support::TempDir dir_;
  const std::string path_ = dir_ / "w0.log";
  Lines lines_;
  LogFollower follower_{
      [this](const std::string& label, const std::string& line) { lines_.push_back(label + " " + line); }};
};

TEST_F(LogFollowerTest, ShowsNewLinesOnceAndOnlyWhole) {
  append("of an earlier job\n");
  follower_.follow("w0", path_);
  EXPECT_EQ(poll(), Lines());
  append("one\ntwo\nthr");
  EXPECT_EQ(poll(), (Lines{"w0 one", "w0 two"}));
  append("ee\n");
  EXPECT_EQ(poll(), Lines{"w0 three"});
  EXPECT_EQ(poll(), Lines());
}

TEST_F(LogFollowerTest, AFileThatIsNotThereYetIsEmpty) {
  follower_.follow("w0", path_);
  EXPECT_EQ(poll(), Lines());
  append("one\n");
  EXPECT_EQ(poll(), Lines{"w0 one"});
}

TEST_F(LogFollowerTest, TheLastLineOfAProcessNeedsNoEnd) {
  follower_.follow("w0", path_);
  append("one\nlast words");
  follower_.finish("w0");
  EXPECT_EQ(poll(), (Lines{"w0 one", "w0 last words"}));
}

TEST_F(LogFollowerTest, OfABarThatIsDrawnOverAndOverTheLastStateIsShown) {
  follower_.follow("w0", path_);
  append("10 %\r20 %\r30 %\nnext\r\n");
  EXPECT_EQ(poll(), (Lines{"w0 30 %", "w0 next"}));
}

TEST_F(LogFollowerTest, AVeryLongLineIsShownInParts) {
  follower_.follow("w0", path_);
  append(std::string(100'000, 'x') + "\nend\n");
  const Lines lines = poll();
  size_t length = 0;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    EXPECT_LT(lines[i].size(), 20'000);
    length += lines[i].size() - std::string("w0 ").size();
  }
  EXPECT_EQ(length, 100'000);
  EXPECT_EQ(lines.back(), "w0 end");
}

TEST_F(LogFollowerTest, LastLinesAreThoseOfTheLastProcess) {
  append("of an earlier job\n");
  follower_.follow("w0", path_);
  append("one\n\ntwo\nthree");
  EXPECT_EQ(follower_.last_lines("w0", 2), (Lines{"two", "three"}));
  EXPECT_EQ(follower_.last_lines("w0", 9), (Lines{"one", "two", "three"}));
  follower_.follow("w0", path_);
  EXPECT_EQ(follower_.last_lines("w0", 9), Lines());
  append("\nfour\n");
  EXPECT_EQ(follower_.last_lines("w0", 9), Lines{"four"});
  EXPECT_EQ(follower_.last_lines("w1", 9), Lines());
}

}  // namespace
}  // namespace embers::launch
