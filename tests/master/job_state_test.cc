// JobState under random events: see job_world.h.
#include "tests/master/effect_texts.h"
#include "tests/master/job_world.h"

namespace embers::job_state_testing {
namespace {

TEST(JobState, KeepsItsInvariantsThroughAMillionRandomEvents) {
  uint64_t events = 0, jobs = 0, failed = 0;
  std::map<std::string, uint64_t> seen;
  for (uint64_t seed = 1; events < 1000000; ++seed) {
    World world(random_options(seed), false);
    world.play();
    if (HasFailure()) return;
    events += world.events();
    ++jobs;
    failed += world.failed();
    for (const std::string& what : world.seen) ++seen[what];
    seen["all are late"] += world.all_were_late();
  }
  // In this world all of it happens, and most jobs come to a good end.
  for (const char* what : {"repeated",
                           "left",
                           "link down",
                           "owner lost",
                           "leased again",
                           "evaluated on",
                           "leased to another one, too",
                           "first though late",
                           "all are late",
                           "came back",
                           "joined again",
                           "an answer was lost",
                           "was told to drain",
                           "drained",
                           "an owner joined again",
                           "waited for a place",
                           "an owner was not reached",
                           "journal lost something",
                           "scoring",
                           "failed",
                           "time left was known",
                           "begun",
                           "told to give back",
                           "nothing more now",
                           "saved in an epoch",
                           "saved beside",
                           "a checkpoint was cut short",
                           "was told that it is saved",
                           "saved what some owners have applied",
                           "what some owners had before was pushed again"})
    EXPECT_GT(seen[what], 10) << what;
  EXPECT_GT(seen["stopped before it began, and saved what some owners had"], 1);
  EXPECT_LT(failed, jobs / 2);
}

TEST(JobState, GivesTheSameEffectsForTheSameEvents) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Options options = random_options(seed);
    World world(options, true);
    world.play();
    if (HasFailure()) return;
    JobState again(options.config, 0, true, Time(std::chrono::hours(1)));
    size_t i = 0;
    for (const auto& [event, effects] : world.log()) {
      if (++i == world.log().size() / 2) again = JobState(again);  // a copy is as good
      std::string texts;
      for (const Effect& effect : again.on(event)) texts += text(effect) + "\n";
      ASSERT_EQ(texts, effects) << "event " << i << " of seed " << seed;
    }
  }
}
}  // namespace
}  // namespace embers::job_state_testing
