// The plain process of `embers bench train`: what embers is compared with, in speed and in losses.
#include "bench/peers/plain_models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/errors.h"
#include "bench/peers/plain_tables.h"
#include "data/dataset.h"
#include "data/synth.h"
#include "model/step.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

class PlainModelTest : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  void SetUp() override {
    data::write_criteo(2000, 7, dir_.path().string());
    std::string text = fmt::format(
        "[job]\nname = \"plain\"\n[model]\nname = \"{}\"\ndim = 4\n[data]\ndir = '{}'\ntrain = "
        "\"train.txt\"\n"
        "test = \"test.txt\"\nformat = \"criteo\"\n[optimizer]\nname = \"adam\"\nlearning_rate = 0.01\n"
        "[training]\nbatch_size = 300\n[features]\n",
        std::get<0>(GetParam()), dir_.path().string());
    for (int i = 1; i <= 13; ++i)
      text += fmt::format("I{} = {{ as = \"numeric\", transform = \"log1p\" }}\n", i);
    for (int i = 1; i <= 26; ++i)
      text += fmt::format("C{} = {{ as = \"hash_bucket\", hash_bucket_size = 50, missing = \"\" }}\n", i);
    job_ = job::parse_job({"job.toml", text, {}});
    reader_ = data::MinibatchReader::make(data::Dataset::open(job_, data::Split::kTrain, ""), false);
    set_threads(1);  // ThreadSanitizer does not see how those of OpenBLAS hand work over
  }
  data::Minibatch minibatch(uint64_t number) { return reader_->read(1, number); }
  std::unique_ptr<PlainModel> make(double late = 0) const {
    return PlainModel::make(job_, {std::get<1>(GetParam()), late});
  }
  // Of the next training minibatch.
  double train(PlainModel& model, uint64_t number) { return model.train(minibatch(number), times_); }

  testing_support::TempDir dir_;
  job::Job job_;
  std::unique_ptr<data::MinibatchReader> reader_;
  PlainModel::Times times_;
};

TEST_P(PlainModelTest, LearnsWhatItSees) {
  const auto model = make();
  const double before = model->evaluate(minibatch(0));
  EXPECT_FLOAT_EQ(train(*model, 0), before);
  for (int i = 0; i < 20; ++i) train(*model, 0);
  EXPECT_LT(model->evaluate(minibatch(0)), 0.9 * before);
}

// So the second minibatch sees the same rows as the first one, but dense parameters that have learnt, and an
// evaluation sees all that was learnt.
TEST_P(PlainModelTest, LateGradientsOfRowsAreAppliedAfterTheNextOnes) {
  const auto fresh = make(), prompt = make(), late = make(1);
  const double first = train(*prompt, 0);
  EXPECT_FLOAT_EQ(train(*late, 0), first);
  const double without_rows = train(*late, 1);
  EXPECT_NE(without_rows, fresh->evaluate(minibatch(1)));
  EXPECT_NE(without_rows, prompt->evaluate(minibatch(1)));

  const auto late_again = make(1);
  train(*late_again, 0);
  EXPECT_FLOAT_EQ(late_again->evaluate(minibatch(2)), prompt->evaluate(minibatch(2)));
  EXPECT_FLOAT_EQ(late_again->evaluate(minibatch(2)), prompt->evaluate(minibatch(2)));  // once only
}

// Each gradient is applied once, late or not.
TEST_P(PlainModelTest, AShareOfGradientsIsLate) {
  const auto prompt = make(), half = make(0.5), late = make(1);
  double of_prompt = 0, of_half = 0, of_late = 0;
  for (int i = 0; i < 20; ++i) {
    of_prompt += train(*prompt, 0);
    of_half += train(*half, 0);
    of_late += train(*late, 0);
  }
  EXPECT_LT(of_prompt, of_half);
  EXPECT_LT(of_half, of_late);
}

INSTANTIATE_TEST_SUITE_P(Models, PlainModelTest,
                         testing::Combine(testing::Values("wide_deep", "deepfm", "dlrm"), testing::Bool()));

// Both have Adam on the rows of a minibatch, one operator by operator and one in a loop.
TEST(PlainTables, StackedOnesLearnWhatBagsLearn) {
  data::FeatureSchema schema;
  for (const char* const name : {"a", "b"}) {
    job::CategoricalFeature feature;
    feature.name = name;
    feature.buckets = 7;
    schema.categorical.push_back(feature);
  }
  const std::vector<PlainTables::Group> groups{{1, true}, {11, true}};
  const auto bags = PlainTables::bags(schema, groups, {}), stacked = PlainTables::stacked(schema, groups, {});
  const auto minibatch = [](int step) {
    data::Minibatch m;
    m.examples = 5;
    for (int64_t f = 0; f < 2; ++f) {
      Ids ids;
      std::vector<int64_t> keys;
      for (int64_t e = 0; e < m.examples; ++e) keys.push_back((step + e * e * (f + 1)) % 7);
      ids.keys = Keys(std::move(keys));
      for (int64_t e = 1; e <= m.examples; ++e) ids.offsets.push_back(e);
      ids.width = 1;
      m.ids.push_back(std::move(ids));
    }
    return m;
  };
  for (int step = 0; step < 20; ++step) {
    const data::Minibatch m = minibatch(step);
    // Some are prepared, while others are to come.
    const auto prepared = step % 3 == 0 ? nullptr : stacked->prepare(m);
    stacked->prepare(minibatch(step + 1));
    const auto before = bags->lookup(m), ours = stacked->lookup(m, prepared);
    std::vector<at::Tensor> gradients;
    for (size_t g = 0; g < groups.size(); ++g) {
      EXPECT_TRUE(at::allclose(ours[g], before[g], 1e-5, 1e-7)) << "step " << step << ", group " << g;
      gradients.push_back(at::sin(at::arange(before[g].numel()) + step).view(before[g].sizes()));
    }
    bags->apply(bags->gradients(gradients));
    stacked->apply(stacked->gradients(gradients));
  }
}

TEST(PlainTables, StackedOnesTakeOneIdInEachExample) {
  data::FeatureSchema schema;
  schema.categorical.resize(1);
  schema.categorical[0].buckets = 7;
  const auto tables = PlainTables::stacked(schema, {{4, false}}, {});
  data::Minibatch m;
  m.examples = 1;
  Ids two;
  two.keys = Keys(std::vector<int64_t>{1, 2});
  two.offsets = {0, 2};
  m.ids.push_back(std::move(two));
  EXPECT_THROW(tables->lookup(m), Error);
}

}  // namespace
}  // namespace embers
