#include "bench/wire/replay.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/errors.h"
#include "bench/wire/checked_rows.h"
#include "storage/update_rules/update_rule.h"

namespace embers {
namespace {

constexpr int64_t kRows = 10 * kBenchKeys;
constexpr double kRowsOfOne = kBenchKeys;  // minibatch

// A table that trains by itself.
class Table {
 public:
  void train(std::span<const int64_t> keys, uint64_t step) {
    const storage::UpdateKernel kernel = adam_->kernel({step, kCheckedRate});
    for (const int64_t key : keys) {
      const auto at = static_cast<size_t>(key);
      kernel(row(key), std::span(slots_).subspan(at * 2 * kBenchDim, 2 * kBenchDim), gradient_);
    }
  }
  std::span<float> row(int64_t key) {
    return std::span(rows_).subspan(static_cast<size_t>(key) * kBenchDim, kBenchDim);
  }
  std::vector<float> read(std::span<const int64_t> keys) {
    std::vector<float> rows;
    for (const int64_t key : keys) rows.insert(rows.end(), row(key).begin(), row(key).end());
    return rows;
  }

 private:
  const std::unique_ptr<const storage::UpdateRule> adam_ = storage::UpdateRule::make({"adam", {}});
  const std::vector<float> gradient_ = std::vector<float>(kBenchDim, kTimedGradient);
  std::vector<float> rows_ = std::vector<float>(kRows * kBenchDim, kCheckedStart);
  std::vector<float> slots_ = std::vector<float>(kRows * 2 * kBenchDim);
};

class ReplayTest : public testing::Test {
 protected:
  // A push that the table may have left out.
  void push(bool zipf, size_t minibatch, bool leave_out = false) {
    ++step_;
    if (!leave_out) table_.train((zipf ? zipf_ : uniform_)[minibatch], step_);
    replay_.trained(zipf, minibatch, step_);
  }
  // Two laps, in which some keys of Zipf's come again and again.
  void train() {
    for (size_t i = 0; i < 2 * uniform_.size(); ++i) {
      push(false, i);
      push(true, i);
    }
  }
  Replay::Deviation deviation() {
    return replay_.deviation([this](std::span<const int64_t> keys) { return table_.read(keys); });
  }
  // Of all keys that are looked at.
  double one_row() const {
    std::set<int64_t> keys(zipf_[0].begin(), zipf_[0].end());
    for (size_t m = 0; m < Replay::kReplayed; ++m) keys.insert(uniform_[m].begin(), uniform_[m].end());
    return 1 / static_cast<double>(keys.size());
  }

  const KeyMinibatches uniform_{kRows}, zipf_ = KeyMinibatches::zipf(kRows);
  Replay replay_{uniform_, zipf_};
  Table table_;
  uint64_t step_ = 3;  // there were others
};

TEST_F(ReplayTest, RowsThatAreRight) {
  train();
  EXPECT_EQ(deviation().rows_off, 0);
  EXPECT_EQ(deviation().way_lost, 0);
  train();  // and go on
  EXPECT_EQ(deviation().rows_off, 0);
  EXPECT_EQ(deviation().way_lost, 0);
}

TEST_F(ReplayTest, APushThatWasLeftOut) {
  train();
  push(false, 2, true);
  EXPECT_NEAR(deviation().rows_off, kRowsOfOne * one_row(), 1e-9);
  EXPECT_GT(deviation().way_lost, 0.01);
}

TEST_F(ReplayTest, APushByZipfsLawThatWasLeftOut) {
  train();
  push(true, 0, true);
  EXPECT_NEAR(deviation().rows_off, kRowsOfOne * one_row(), 1e-9);
}

TEST_F(ReplayTest, OneRowThatWentTooFar) {
  train();
  table_.train(uniform_[4].subspan(17, 1), step_ + 1);
  EXPECT_NEAR(deviation().rows_off, one_row(), 1e-9);
  EXPECT_LT(deviation().way_lost, 0);
}

TEST_F(ReplayTest, ANumberThatIsNone) {
  train();
  table_.row(uniform_[7][5])[62] = std::numeric_limits<float>::quiet_NaN();
  table_.row(uniform_[0][0])[3] = std::numeric_limits<float>::infinity();
  EXPECT_NEAR(deviation().rows_off, 2 * one_row(), 1e-9);
  EXPECT_GT(deviation().way_lost, 0);
}

TEST_F(ReplayTest, AMinibatchThatNobodyTrainedOn) {
  for (size_t i = 0; i + 1 < Replay::kReplayed; ++i) push(false, i);
  EXPECT_THROW(deviation(), Error);
}

TEST(Replay, ATableOfFewMinibatches) {
  const KeyMinibatches uniform(4 * kBenchKeys), zipf = KeyMinibatches::zipf(4 * kBenchKeys);
  Replay replay(uniform, zipf);
  for (size_t i = 0; i < 4; ++i) replay.trained(false, i, i + 1);
  const auto as_they_began = [](std::span<const int64_t> keys) {
    return std::vector<float>(keys.size() * kBenchDim, kCheckedStart);
  };
  EXPECT_EQ(replay.deviation(as_they_began).rows_off, 1);
  EXPECT_EQ(replay.deviation(as_they_began).way_lost, 1);
}

}  // namespace
}  // namespace embers
