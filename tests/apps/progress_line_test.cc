// A running job in one line, however narrow the terminal.
#include "apps/process/progress_line.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace embers {
namespace {

ProgressFigures figures() {
  ProgressFigures p;
  p.what = "epoch 2/5";
  p.share = 0.42;
  p.remaining = 245;
  p.examples_per_second = 92'100;
  p.loss = 0.2706;
  p.auc = 0.9287;
  p.examples = 123'456;
  p.version = 2545;
  p.rows = 12'345;
  p.workers = 4;
  return p;
}

TEST(ProgressLine, AtSomeWidths) {
  const auto line = [](size_t columns) { return progress_line(figures(), columns); };
  EXPECT_EQ(line(20), "epoch 2/5   42%");
  EXPECT_EQ(line(40), "epoch 2/5   42%  4m05s left  92.1k/s");
  EXPECT_EQ(line(60), "epoch 2/5   42%  4m05s left  92.1k/s  loss 0.2706");
  EXPECT_EQ(line(80), "epoch 2/5  [###     ]   42%  4m05s left  92.1k/s  loss 0.2706  AUC 0.9287");
  EXPECT_EQ(
      line(100),
      "epoch 2/5  [###     ]   42%  4m05s left  92.1k/s  loss 0.2706  AUC 0.9287  4 workers  12.3k rows");
  EXPECT_EQ(
      line(120),
      "epoch 2/5  [#######           ]   42%  4m05s left  92.1k/s  loss 0.2706  AUC 0.9287  4 workers  12.3k "
      "rows  version 2545");
  EXPECT_EQ(line(200),
            "epoch 2/5  [##########              ]   42%  4m05s left  92.1k/s  loss 0.2706  AUC 0.9287  4 "
            "workers  12.3k rows  version 2545");
}

TEST(ProgressLine, FitsEveryWidthAndLosesPartsInOneOrder) {
  // Least important first.
  const std::vector<std::string> parts{"version", "rows", "workers", "[",     "AUC",
                                       "loss",    "/s",   "left",    "epoch", "%"};
  size_t before = 0;  // parts that the next wider line lacks
  for (size_t columns = 200; columns >= 20; --columns) {
    const std::string line = progress_line(figures(), columns);
    ASSERT_LE(line.size(), columns);
    size_t missing = 0;
    while (missing < parts.size() && line.find(parts[missing]) == std::string::npos) ++missing;
    for (size_t i = missing; i < parts.size(); ++i)
      ASSERT_NE(line.find(parts[i]), std::string::npos) << columns << ": " << line;
    ASSERT_GE(missing, before) << columns << ": " << line;
    before = missing;
  }
  EXPECT_EQ(before, 8) << "the epoch and its share are left";
}

TEST(ProgressLine, HasNoMoreThanItsWidthWhateverItsFigures) {
  for (const double share : {ProgressFigures::kNone, 0.0, 0.5, 1.0, 7.0})
    for (const uint64_t count : {uint64_t{0}, uint64_t{999'999}, UINT64_MAX})
      for (const std::string what : {"evaluating", "epoch 4000000000/4000000000"})
        for (size_t columns = 0; columns <= 200; ++columns) {
          ProgressFigures p;
          p.what = what;
          p.share = share;
          p.examples_per_second = static_cast<double>(count);
          p.examples = p.version = p.rows = p.workers = count;
          ASSERT_LE(progress_line(p, columns).size(), columns);
        }
}

TEST(ProgressLine, LeavesOutWhatIsNotKnown) {
  ProgressFigures p;
  p.what = "gathering";
  EXPECT_EQ(progress_line(p, 200), "gathering  -/s  loss -  AUC -  0 workers  0 rows  version 0");
  p = figures();
  p.remaining = 0.2;
  EXPECT_NE(progress_line(p, 80).find("1.0s left"), std::string::npos);
  p.remaining.reset();
  EXPECT_EQ(progress_line(p, 80).find("left"), std::string::npos);
}

TEST(ProgressLine, OfALogHasEverything) {
  EXPECT_EQ(progress_text(figures()),
            "epoch 2/5   42%  123456 examples  4m05s left  92.1k/s  loss 0.2706  AUC 0.9287  4 workers  "
            "12.3k rows  "
            "version 2545");
}

TEST(FitParts, GivesUpThePartsOfHigherRankFirst) {
  const std::vector<Part> parts{{"aaa", 1}, {"b", 2}, {"cc", 0}};
  EXPECT_EQ(fit_parts(parts, 100), "aaa  b  cc");
  EXPECT_EQ(fit_parts(parts, 10), "aaa  b  cc");
  EXPECT_EQ(fit_parts(parts, 9), "aaa  cc");
  EXPECT_EQ(fit_parts(parts, 6), "cc");
  EXPECT_EQ(fit_parts(parts, 1), "");
  EXPECT_EQ(fit_parts({}, 10), "");
}

}  // namespace
}  // namespace embers
