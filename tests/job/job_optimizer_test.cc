// [optimizer] with its schedule, and what tables make of them.
#include <gtest/gtest.h>

#include "job/job.h"
#include "tests/data/testutil.h"

namespace embers::data {
namespace {

const std::string kColumns = "columns = [{ name = \"x\" }]";

TEST(JobOptimizer, AScheduleIsATableOrASectionOfItsOwn) {
  const ScheduleSpec expected{"cosine", {{"decay_steps", 100}, {"warmup_steps", 5}}, {}, {}};
  EXPECT_EQ(parse(job_text(kColumns, R"([optimizer]
schedule = { name = "cosine", decay_steps = 100, warmup_steps = 5 })"))
                .optimizer.schedule,
            expected);
  EXPECT_EQ(parse(job_text(kColumns,
                           "[optimizer.schedule]\nname = \"cosine\"\ndecay_steps = 100\nwarmup_steps = 5"))
                .optimizer.schedule,
            expected);
}

TEST(JobOptimizer, APiecewiseScheduleHasLists) {
  const Job job = parse(job_text(kColumns, R"([optimizer.schedule]
name = "piecewise"
boundaries = [10, 20.5]
values = [1, 0.5, 0.25])"));
  EXPECT_EQ(job.optimizer.schedule, (ScheduleSpec{"piecewise", {}, {10, 20.5}, {1, 0.5, 0.25}}));
}

TEST(JobOptimizer, ATablesLearningRateTakesThePlaceOfTheInitialOne) {
  const Job job = parse(job_text(kColumns, R"([optimizer.schedule]
name = "cosine"
initial_learning_rate = 0.5
decay_steps = 100
[storage.tables]
deep = { learning_rate = 0.25 }
other = { optimizer = { name = "lion", schedule = { name = "constant" } } })"));
  TableSpec deep, other;
  deep.name = "deep";
  other.name = "other";
  job.apply_overrides(deep);
  job.apply_overrides(other);
  EXPECT_EQ(deep.update_rule.schedule.params, (std::map<std::string, double>{{"decay_steps", 100}}));
  EXPECT_EQ(deep.update_rule.params, (std::map<std::string, double>{{"learning_rate", 0.25}}));
  EXPECT_EQ(other.update_rule.name, "lion");
  EXPECT_EQ(other.update_rule.schedule.name, "constant");
}

TEST(JobOptimizer, BadGradientsAreErrorsUnlessTheJobSaysOtherwise) {
  EXPECT_FALSE(parse(job_text(kColumns)).training.skip_bad_gradients);
  EXPECT_TRUE(
      parse(job_text(kColumns, "[training]\non_bad_gradient = \"skip\"")).training.skip_bad_gradients);
  EXPECT_EQ(parse_error(job_text(kColumns, "[training]\non_bad_gradient = \"skp\"")),
            "job.toml:7: [training] 'on_bad_gradient' cannot be 'skp'; did you mean 'skip'?");
}

}  // namespace
}  // namespace embers::data
