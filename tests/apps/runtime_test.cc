#include "apps/process/runtime.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "apps/process/child.h"
#include "base/errors.h"
#include "tests/support/expect_error.h"
#include "tests/support/process.h"

namespace embers {
namespace {

using namespace testing_support;

// The scheduling policies of a thread that ran `first`, and of a thread that it started afterwards.
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

// Like a shard whose workers keep it busy: its mailbox is never empty.
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

std::string disposition_of(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return fmt::format("{}{}", action.sa_handler == SIG_DFL ? "default" : "handled",
                     action.sa_flags & SA_RESTART ? ", calls restarted" : "");
}

TEST(SignalWatch, TellsTheFirstSignalByNameAndLeavesNothingBehind) {
  for (const auto& [signal, name] : {std::pair(SIGTERM, "SIGTERM"), {SIGINT, "SIGINT"}}) {
    std::promise<std::string> told;
    {
      const SignalWatch watch([&](const std::string& which) { told.set_value(which); });
      EXPECT_EQ(disposition_of(signal), "handled, calls restarted");
      ::raise(signal);
      EXPECT_EQ(told.get_future().get(), name);
    }
    EXPECT_EQ(disposition_of(signal), "default");
  }
}

TEST(SignalWatch, EndsWithoutASignal) {
  const SignalWatch watch([](const std::string& which) { ADD_FAILURE() << which; });
}

TEST(SignalWatchDeath, ASecondSignalEndsTheProcessAtOnce) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        std::promise<void> told;
        const SignalWatch watch([&](const std::string&) { told.set_value(); });
        ::raise(SIGTERM);
        told.get_future().get();
        ::raise(SIGINT);
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

// Whether the kernel still knows the process, even if only as a zombie.
bool runs(int pid) { return ::kill(pid, 0) == 0; }

TEST(Child, IsGoneAfterItsEnd) {
  boost::process::child child(kFindInPath, boost::process::args({"sleep", "600"}), ends_with_this_process());
  const int pid = child.id();
  EXPECT_TRUE(runs(pid));
  end(child);
  EXPECT_FALSE(runs(pid));
}

TEST(Child, EndsQuietlyWhereItsEndIsNotToldAnybody) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);  // as a parent may leave it
  {
    namespace bp = boost::process;
    bp::child child(kFindInPath, "sleep", "60", ends_with_this_process());
    EXPECT_NO_THROW(end(child));
  }
  ::signal(SIGCHLD, before);
}

TEST(Child, SaysWhenItsProgramIsMissing) {
  boost::process::child child(kFindInPath, boost::process::args({"no-such-program"}),
                              boost::process::std_err > boost::process::null, ends_with_this_process());
  child.wait();
  EXPECT_TRUE(was_not_found(child));
}

TEST(Child, EndsWithItsParentEvenIfThatIsKilled) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const int parent = ::fork();
  if (parent == 0) {
    boost::process::child child(kFindInPath, boost::process::args({"sleep", "600"}),
                                ends_with_this_process());
    const int pid = child.id();
    if (::write(pipe[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    ::pause();
  }
  int pid = 0;
  ASSERT_EQ(::read(pipe[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  EXPECT_TRUE(runs(pid));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  // Its new parent, whichever process that is, may take a while to notice.
  EXPECT_TRUE(testing_support::wait_until([&] {
    const std::string status = testing_support::read_file(fmt::format("/proc/{}/stat", pid));
    return status.empty() || status.find(") Z ") != std::string::npos;
  }));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(Pin, NamesItsOptionInErrorsAndIsNothingWithoutOne) {
  EXPECT_TRUE(parse_pin("").empty());
  expect_error(ErrorCode::kInvalid, {"--pin: 'x'"}, [] { parse_pin("x"); });
}

}  // namespace
}  // namespace embers
