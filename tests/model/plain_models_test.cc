// The plain process of `embers bench train`: what embers is compared with, in speed and in losses.
#include "bench/peers/plain_models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "data/dataset.h"
#include "data/synth.h"
#include "model/step.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

class PlainModelTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    data::write_criteo(2000, 7, dir_.path().string());
    std::string text = fmt::format(
        "[job]\nname = \"plain\"\n[model]\nname = \"{}\"\ndim = 4\n[data]\ndir = '{}'\ntrain = "
        "\"train.txt\"\n"
        "test = \"test.txt\"\nformat = \"criteo\"\n[optimizer]\nname = \"adam\"\nlearning_rate = 0.01\n"
        "[training]\nbatch_size = 300\n[features]\n",
        GetParam(), dir_.path().string());
    for (int i = 1; i <= 13; ++i)
      text += fmt::format("I{} = {{ as = \"numeric\", transform = \"log1p\" }}\n", i);
    for (int i = 1; i <= 26; ++i)
      text += fmt::format("C{} = {{ as = \"hash_bucket\", hash_bucket_size = 50, missing = \"\" }}\n", i);
    job_ = job::parse_job({"job.toml", text, {}});
    reader_ = data::MinibatchReader::make(data::Dataset::open(job_, data::Split::kTrain, ""), false);
    set_threads(1);  // ThreadSanitizer does not see how those of OpenBLAS hand work over
  }
  data::Minibatch minibatch(uint64_t number) { return reader_->read(1, number); }
  // Of the next training minibatch.
  double train(PlainModel& model, uint64_t number) { return model.train(minibatch(number), times_); }

  testing_support::TempDir dir_;
  job::Job job_;
  std::unique_ptr<data::MinibatchReader> reader_;
  PlainModel::Times times_;
};

TEST_P(PlainModelTest, LearnsWhatItSees) {
  const auto model = PlainModel::make(job_);
  const double before = model->evaluate(minibatch(0));
  EXPECT_FLOAT_EQ(train(*model, 0), before);
  for (int i = 0; i < 20; ++i) train(*model, 0);
  EXPECT_LT(model->evaluate(minibatch(0)), 0.9 * before);
}

// So the second minibatch sees the same values as the first one, and an evaluation sees all that was learnt.
TEST_P(PlainModelTest, LateGradientsAreAppliedAfterTheNextOnes) {
  const auto fresh = PlainModel::make(job_), prompt = PlainModel::make(job_),
             late = PlainModel::make(job_, true);
  const double first = train(*prompt, 0);
  EXPECT_FLOAT_EQ(train(*late, 0), first);
  const double unseen = fresh->evaluate(minibatch(1));
  EXPECT_FLOAT_EQ(train(*late, 1), unseen);
  EXPECT_NE(prompt->evaluate(minibatch(1)), unseen);

  const auto late_again = PlainModel::make(job_, true);
  train(*late_again, 0);
  EXPECT_FLOAT_EQ(late_again->evaluate(minibatch(2)), prompt->evaluate(minibatch(2)));
  EXPECT_FLOAT_EQ(late_again->evaluate(minibatch(2)), prompt->evaluate(minibatch(2)));  // once only
}

INSTANTIATE_TEST_SUITE_P(Models, PlainModelTest, testing::Values("wide_deep", "deepfm", "dlrm"));

}  // namespace
}  // namespace embers
