// What members append to their logs, as the launcher shows it.
#include "apps/launch/members/log_follower.h"

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
  Lines lines = poll();
  for (const std::string& line : poll()) lines.push_back(line);
  size_t length = 0;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    EXPECT_LT(lines[i].size(), 20'000);
    length += lines[i].size() - std::string("w0 ").size();
  }
  EXPECT_EQ(length, 100'000);
  EXPECT_EQ(lines.back(), "w0 end");
}

TEST_F(LogFollowerTest, AMemberThatSaysTooMuchIsShownInPartsAndThenItsEnd) {
  follower_.follow("w0", path_);
  const std::string line(99, 'x');
  std::string much;
  while (much.size() < LogFollower::kFarBehind) much += line + "\n";
  much.resize(LogFollower::kFarBehind);
  append(much);
  const Lines first = poll();  // this much it would catch up with
  EXPECT_EQ(first.front(), "w0 " + line);
  EXPECT_LT(first.size(), 1000);
  append(much + "\n" + much + "\nthe end\n");
  Lines lines = poll();
  EXPECT_EQ(lines.front().rfind("w0 ... ", 0), 0) << lines.front();
  EXPECT_NE(lines.front().find(" MiB are left out here; all of it is in " + path_), std::string::npos)
      << lines.front();
  EXPECT_EQ(lines.at(1), "w0 " + line);  // a whole one
  while (lines.back() != "w0 the end") {
    const Lines more = poll();
    ASSERT_FALSE(more.empty());
    lines.insert(lines.end(), more.begin(), more.end());
  }
  EXPECT_LT(lines.size(), 1000);
  EXPECT_EQ(poll(), Lines());
}

TEST_F(LogFollowerTest, OneThatEndsIsShownToItsEndHoweverMuchItSaid) {
  follower_.follow("w0", path_);
  append(std::string(3 * LogFollower::kFarBehind, 'x') + "\nlast words");
  follower_.finish("w0");
  EXPECT_EQ(poll().back(), "w0 last words");
}

TEST_F(LogFollowerTest, AFileThatSomebodyHasEmptiedIsReadFromItsBegin) {
  follower_.follow("w0", path_);
  append("one\ntwo\n");
  EXPECT_EQ(poll().size(), 2);
  std::ofstream(path_, std::ios::trunc) << "new\n";
  EXPECT_EQ(poll(), Lines{"w0 new"});
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
