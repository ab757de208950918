#include "apps/process/runtime.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;

// What the scheduler says of a thread that ran `first`, and of one that it started afterwards.
std::pair<int, int> policies_after(const std::function<void()>& first) {
  std::pair<int, int> policies;
  std::thread([&] {
    first();
    policies.first = sched_getscheduler(0);
    std::thread([&] { policies.second = sched_getscheduler(0); }).join();
  }).join();
  return policies;
}

TEST(RunAsBatch, HoldsForThreadsThatComeLater) {
  EXPECT_EQ(policies_after(run_as_batch), std::pair(SCHED_BATCH, SCHED_BATCH));
}

TEST(RunAsBatch, LeavesAPolicyThatWasGiven) {
  const auto idle_before = [] {
    const sched_param none{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    run_as_batch();
  };
  EXPECT_EQ(policies_after(idle_before), std::pair(SCHED_IDLE, SCHED_IDLE));
}

using work_atom = caf::atom_constant<caf::atom("work")>;
using ask_atom = caf::atom_constant<caf::atom("ask")>;

// As a shard whose workers keep it busy: its mailbox is never empty.
caf::behavior busy(caf::event_based_actor* self, int messages) {
  for (int i = 0; i < messages; ++i) self->send(self, work_atom::value);
  return {[self](work_atom) { self->send(self, work_atom::value); }};
}

caf::behavior answering(caf::event_based_actor*, int answer) {
  return {[answer](ask_atom) { return answer; }};
}

TEST(SystemConfig, ActorsThatAreAlwaysBusyLetTheOthersHaveTheirTurn) {
  SystemConfig config;
  caf::actor_system system(config);
  std::vector<caf::actor> shards;
  for (size_t i = 0; i < caf::get_or(config, "scheduler.max-threads", size_t{0}) + 1; ++i)
    shards.push_back(system.spawn(busy, 16));
  {
    caf::scoped_actor self{system};
    for (int i = 0; i < 3; ++i)
      self->request(system.spawn(answering, i), std::chrono::seconds(60), ask_atom::value)
          .receive([&](int answer) { EXPECT_EQ(answer, i); },
                   [&](const caf::error& e) { ADD_FAILURE() << system.render(e); });
  }
  for (const caf::actor& shard : shards) caf::anon_send_exit(shard, caf::exit_reason::kill);
}

TEST(Pin, NamesItsOptionInErrorsAndIsNothingWithoutOne) {
  EXPECT_TRUE(parse_pin("").empty());
  expect_error(ErrorCode::kInvalid, {"--pin: 'x'"}, [] { parse_pin("x"); });
}

}  // namespace
}  // namespace embers
