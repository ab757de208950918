#include "data/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "tests/data/testutil.h"

namespace embers::data {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Job criteo_job(const TempDir& dir) {
  Job job = parse(job_text("format = \"criteo\""), {"data.train=train.txt", "data.test=test.txt"});
  job.data.dir = dir.path().string();
  return job;
}

std::vector<Minibatch> read_split(const Job& job, Split split) {
  const auto dataset = Dataset::open(job, split, "");
  const auto reader = MinibatchReader::make(dataset, false);
  std::vector<Minibatch> out;
  for (uint64_t i = 0; i < dataset->minibatches(); ++i) out.push_back(reader->read(0, i));
  return out;
}

// Area under the ROC curve, by ranks (no ties among scores to speak of).
double auc(std::vector<std::pair<double, float>> scored) {
  std::sort(scored.begin(), scored.end());
  double ranks = 0, positives = 0;
  for (size_t i = 0; i < scored.size(); ++i) {
    if (scored[i].second > 0) {
      ranks += static_cast<double>(i + 1);
      ++positives;
    }
  }
  return (ranks - positives * (positives + 1) / 2) /
         (positives * (static_cast<double>(scored.size()) - positives));
}

// Logistic regression over ids and counts, one pass of Adagrad.
class LogisticRegression {
 public:
  double score(const Minibatch& m, int64_t row) {
    double z = bias_.value;
    for (size_t f = 0; f < m.ids.size(); ++f) z += weight(m, f, row).value;
    for (size_t j = 0; j < counts_.size(); ++j) z += counts_[j].value * count(m, row, j);
    return z;
  }
  void learn(const Minibatch& m, int64_t row) {
    const double error = 1 / (1 + std::exp(-score(m, row))) - m.labels[row];
    bias_.step(error);
    for (size_t f = 0; f < m.ids.size(); ++f) weight(m, f, row).step(error);
    for (size_t j = 0; j < counts_.size(); ++j) counts_[j].step(error * count(m, row, j));
  }

 private:
  struct Weight {
    double value = 0, squares = 0;
    void step(double gradient) {
      squares += gradient * gradient;
      value -= 0.1 * gradient / std::sqrt(squares + 1e-8);
    }
  };
  Weight& weight(const Minibatch& m, size_t feature, int64_t row) {
    return weights_[{feature, std::string(m.ids[feature].keys.view().bytes_at(static_cast<size_t>(row)))}];
  }
  static double count(const Minibatch& m, int64_t row, size_t j) { return m.numeric[row * 13 + j] / 5; }

  Weight bias_;
  std::array<Weight, 13> counts_;
  std::map<std::pair<size_t, std::string>, Weight> weights_;
};

TEST(Synth, IsAFunctionOfRowsAndSeed) {
  const TempDir a, b, c;
  write_criteo(1000, 1, a.path().string());
  write_criteo(1000, 1, b.path().string());
  write_criteo(1000, 2, c.path().string());
  EXPECT_EQ(bytes_of(a / "train.txt"), bytes_of(b / "train.txt"));
  EXPECT_EQ(bytes_of(a / "test.txt"), bytes_of(b / "test.txt"));
  EXPECT_NE(bytes_of(a / "train.txt"), bytes_of(c / "train.txt"));
}

TEST(Synth, WritesTheSameBytesOnEveryPlatform) {
  const TempDir dir;
  write_criteo(10, 1, dir.path().string());
  EXPECT_EQ(bytes_of(dir / "test.txt"),
            "0\t2\t0\t37\t2\t\t160\t5\t80\t68\t0\t4\t\t7\t"
            "1cddf1d9\t53f8b2d3\t27fc4200\t81e7f854\t0323881a\td66f5f0e\t2c1cf32a\t06421c0a\t273e0dc5\t326f42"
            "bd\tc7d8e5f6\t77c6a861\t"
            "d23186b3\tc491661f\td3615acc\t13f076e9\t734ffaa6\t53f42b54\t\t7c9a4647\td66811d7\tbe61c0f3\t3f79"
            "b417\t21ed9d1f\t\t\n");
}

TEST(Synth, DividesRowsByPositionAndTellsProgress) {
  const TempDir dir;
  std::vector<uint64_t> told;
  write_criteo(10005, 1, dir / "new/folder", [&](uint64_t done) { told.push_back(done); });
  const std::string train = bytes_of(dir / "new/folder/train.txt"),
                    test = bytes_of(dir / "new/folder/test.txt");
  EXPECT_EQ(std::count(train.begin(), train.end(), '\n'), 9005);
  EXPECT_EQ(std::count(test.begin(), test.end(), '\n'), 1000);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), 10005u);
}

TEST(Synth, RefusesTooFewRowsAndFoldersThatCannotBe) {
  const TempDir dir;
  EXPECT_MENTIONS(message_of([&] { write_criteo(9, 1, dir.path().string()); }), "give at least 10");
  const std::string occupied = write_file(dir, "file", "");
  EXPECT_MENTIONS(message_of([&] { write_criteo(10, 1, occupied); }), "cannot write '" + occupied);
}

TEST(Synth, LooksLikeAClickLog) {
  const TempDir dir;
  write_criteo(20000, 3, dir.path().string());
  double positives = 0, rows = 0;
  std::vector<std::set<std::string>> vocabularies(26);
  int missing_keys = 0;
  for (const Minibatch& m : read_split(criteo_job(dir), Split::kTrain)) {
    for (const float label : m.labels) positives += label;
    rows += static_cast<double>(m.examples);
    for (size_t f = 0; f < m.ids.size(); ++f) {
      for (size_t i = 0; i < m.ids[f].keys.size(); ++i) {
        const std::string key(m.ids[f].keys.view().bytes_at(i));
        missing_keys += key.empty();
        EXPECT_TRUE(key.empty() || key.size() == 8) << key;
        vocabularies[f].insert(key);
      }
    }
  }
  EXPECT_NEAR(positives / rows, 0.25, 0.03);
  EXPECT_GT(missing_keys, 1000);
  EXPECT_EQ(vocabularies[8].size(), 10u);
  EXPECT_GT(vocabularies[2].size(), 5000u);
}

TEST(Synth, ATeacherIsThereToBeLearnt) {
  const TempDir dir;
  write_criteo(60000, 1, dir.path().string());
  const Job job = criteo_job(dir);
  LogisticRegression model;
  for (const Minibatch& m : read_split(job, Split::kTrain)) {
    for (int64_t row = 0; row < m.examples; ++row) model.learn(m, row);
  }
  std::vector<std::pair<double, float>> scored;
  for (const Minibatch& m : read_split(job, Split::kTest)) {
    for (int64_t row = 0; row < m.examples; ++row) scored.emplace_back(model.score(m, row), m.labels[row]);
  }
  EXPECT_GT(auc(scored), 0.65);
}

}  // namespace
}  // namespace embers::data
