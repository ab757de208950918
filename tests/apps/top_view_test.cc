// What `embers top` shows, however small the terminal and whatever the job.
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/process/shown_text.h"
#include "apps/top/members.h"
#include "apps/top/view.h"
#include "apps/top/watcher.h"

namespace embers {
namespace {

using Lines = std::vector<std::string>;

Status::Member member_in(const std::string& role, uint32_t number, const std::string& state = "working") {
  Status::Member m;
  m.name = role + " " + std::to_string(number);
  m.role = role;
  m.number = number;
  m.label = role.substr(0, 1) + std::to_string(number);
  m.host = "node" + std::to_string(number);
  m.pid = 4000 + number;
  m.state = state;
  m.last_sign_s = 0.4;
  m.joined_s = 83;
  m.minibatches = 1272;
  m.examples = 81'402;
  m.rows = 496;
  m.bytes = 1'300'000;
  m.pulls_per_s = 721.3;
  m.pushes_per_s = 719.8;
  m.lag = 3;
  return m;
}

View view() {
  View v;
  v.master = "127.0.0.1:7700";
  Status& s = v.status.emplace();
  s.job = "examples/census.toml";
  s.task = "train";
  s.mode = "async";
  s.phase = "training";
  s.elapsed_s = 83;
  s.remaining_s = 245;
  s.epoch = 2;
  s.epochs = 5;
  s.version = 2545;
  s.minibatches_done = 214;
  s.minibatches = 509;
  s.examples = 162'805;
  s.examples_per_s = 92'092;
  s.loss = 0.2706;
  s.auc = 0.9287;
  s.evaluation = Status::Evaluation{0.2732, 0.9281, 0.8735};
  s.staleness_mean = 3.29;
  s.staleness_max = 27;
  s.workers = {3, 2, 1};
  s.shards = {2, 2, 0};
  s.members = {member_in("worker", 1), member_in("shard", 1), member_in("worker", 0), member_in("shard", 0)};
  return v;
}

Lines texts(const std::vector<Line>& lines) {
  Lines texts;
  for (const Line& line : lines) texts.push_back(line.text.substr(0, line.text.find_last_not_of(' ') + 1));
  return texts;
}

TEST(TopView, At80Columns) {
  EXPECT_EQ(texts(render(view(), 80, 24)),
            (Lines{" embers top  census.toml  async  1m23s  127.0.0.1:7700  q: leave",
                   "epoch 2/5  42%  4m05s left  214 of 509 minibatches  [##########                ]",
                   "92.1k examples/s  loss 0.2706  AUC 0.9287  staleness 3.29 (max 27)  992 rows",
                   "workers 2 of 3 (1 lost)  shards 2 of 2", "",
                   "MEMBER     STATE         LAST SIGN   ROWS    MEMORY  PULLS/S  PUSHES/S    LAG",
                   "shard 0    working            0.4s    496  1.24 MiB      721       720      3",
                   "shard 1    working            0.4s    496  1.24 MiB      721       720      3",
                   "worker 0   working            0.4s                       721       720      3",
                   "worker 1   working            0.4s                       721       720      3"}));
}

TEST(TopView, At160ColumnsHasEveryColumn) {
  const Lines lines = texts(render(view(), 160, 24));
  EXPECT_EQ(
      lines[3],
      "workers 2 of 3 (1 lost)  shards 2 of 2  last evaluation: loss 0.2732, AUC 0.9281, accuracy 0.8735");
  EXPECT_EQ(
      lines[5],
      "MEMBER     LABEL  STATE         LAST SIGN   ROWS    MEMORY  PULLS/S  PUSHES/S    LAG  MINIBATCHES  "
      "EXAMPLES  JOINED  HOST       PID");
  EXPECT_EQ(
      lines[8],
      "worker 0   w0     working            0.4s                       721       720      3         1272     "
      "81.4k   1m23s  node0     4000");
}

TEST(TopView, FitsEverySize) {
  View full = view();
  for (uint32_t n = 2; n < 60; ++n) full.status->members.push_back(member_in("worker", n));
  full.status->members[3].label = std::string(500, 'x');
  full.status->members[4].host = "a\033[2J主机";
  full.trouble = std::string(300, 'e');
  full.status->stopping = "SIGINT";
  View empty;
  empty.master = "127.0.0.1:7700";
  for (const View& v : {full, view(), empty})
    for (size_t columns = 1; columns <= 200; ++columns)
      for (const size_t lines : {1, 2, 5, 8, 9, 24, 100}) {
        const auto shown = render(v, columns, lines);
        ASSERT_LE(shown.size(), lines);
        for (const Line& line : shown) {
          ASSERT_LE(columns_of(line.text), columns) << line.text;
          ASSERT_EQ(line.text, cut_to(line.text, 1000)) << "it has something that cannot be shown";
        }
      }
}

TEST(TopView, LosesColumnsOfTheTableInOneOrder) {
  const Lines heads{"JOINED", "EXAMPLES", "PID",      "HOST",    "LABEL",     "MINIBATCHES", "LAG",
                    "MEMORY", "ROWS",     "PUSHES/S", "PULLS/S", "LAST SIGN", "STATE"};
  size_t before = 0;
  for (size_t columns = 200; columns >= 20; --columns) {
    const std::string line = render_members(view().status->members, columns, 10)[0].text;
    size_t missing = 0;
    while (missing < heads.size() && line.find(heads[missing]) == std::string::npos) ++missing;
    for (size_t i = missing; i < heads.size(); ++i) ASSERT_NE(line.find(heads[i]), std::string::npos) << line;
    ASSERT_GE(missing, before);
    before = missing;
  }
  EXPECT_GT(before, 10);
}

TEST(TopView, ShowsMembersInTroubleFirstAndCountsThoseWithoutRoom) {
  std::vector<Status::Member> members;
  for (uint32_t n = 0; n < 10; ++n)
    members.push_back(member_in("worker", n, n == 7 ? "late" : n < 2 ? "idle" : "working"));
  members.push_back(member_in("shard", 0, "away"));
  members.push_back(member_in("shard", 1));
  const auto lines = render_members(members, 80, 6);
  ASSERT_EQ(lines.size(), 6);
  EXPECT_EQ(lines[1].text.substr(0, 15), "shard 0    away");
  EXPECT_EQ(lines[1].style, Line::Style::kBad);
  EXPECT_EQ(lines[2].text.substr(0, 15), "worker 7   late");
  EXPECT_EQ(lines[3].text.substr(0, 8), "shard 1 ");
  EXPECT_EQ(lines[3].style, Line::Style::kPlain);
  EXPECT_EQ(lines[4].text.substr(0, 9), "worker 0 ");
  EXPECT_EQ(lines[5].text, "... 8 more: 7 working, 1 idle");
  EXPECT_EQ(render_members(members, 80, 13).back().text.substr(0, 9), "worker 9 ");
  EXPECT_EQ(render_members({}, 80, 5)[0].text, "no members yet");
}

TEST(TopView, SaysWhatIsWrong) {
  View v = view();
  v.trouble = "no connection";
  v.silent_s = 12;
  v.status->error = "a shard was lost";
  v.status->stopping = "SIGINT";
  const auto lines = render(v, 80, 24);
  EXPECT_EQ(lines[1].text, "no answer for 12s, trying again: no connection");
  EXPECT_EQ(lines[1].style, Line::Style::kBad);
  EXPECT_EQ(lines[2].text, "failed: a shard was lost");
  EXPECT_EQ(lines[3].text, "stopping: SIGINT");
  v.status.reset();
  EXPECT_EQ(texts(render(v, 80, 24)), (Lines{" embers top  127.0.0.1:7700  q: leave",
                                             "no answer for 12s, trying again: no connection"}));
}

// --- what becomes of the view ------------------------------------------------------------------------

class WatcherTest : public testing::Test {
 protected:
  Watcher::Time at(double seconds) const {
    return begin_ +
           std::chrono::duration_cast<Watcher::Time::duration>(std::chrono::duration<double>(seconds));
  }
  static Status status(const std::string& phase = "training") {
    Status s = *view().status;
    s.phase = phase;
    return s;
  }
  static Error gone() { return Error(ErrorCode::kUnreachable, "connection refused"); }

  const Watcher::Time begin_{std::chrono::hours(1)};
  Watcher watcher_{"127.0.0.1:7700", Watcher::Interval(1), true, begin_};
};

TEST_F(WatcherTest, GoesOnWhileTheMasterDoesNotAnswer) {
  watcher_.take(gone(), at(5));
  EXPECT_FALSE(watcher_.end());
  EXPECT_EQ(watcher_.view(at(6)).trouble, "connection refused");
  EXPECT_EQ(watcher_.view(at(6)).silent_s, 6);
  watcher_.take(status(), at(7));
  EXPECT_EQ(watcher_.view(at(7)).trouble, "");
  watcher_.take(Error(ErrorCode::kTimeout, "no answer"), at(9));
  EXPECT_FALSE(watcher_.end());
  EXPECT_TRUE(watcher_.view(at(9)).status) << "the last one stays";
  EXPECT_EQ(watcher_.view(at(9)).silent_s, 2);
}

TEST_F(WatcherTest, MissesAnAnswerThatTakesLong) {
  watcher_.take(status(), at(1));
  EXPECT_EQ(watcher_.view(at(4)).trouble, "");
  EXPECT_EQ(watcher_.view(at(6)).trouble, "waiting for the master");
  watcher_.take(status(), at(7));
  EXPECT_EQ(watcher_.view(at(8)).trouble, "");
}

TEST_F(WatcherTest, EndsWithTheJob) {
  watcher_.take(status(), at(1));
  watcher_.take(Error(ErrorCode::kEnded, "the job has ended"), at(2));
  ASSERT_TRUE(watcher_.end());
  EXPECT_EQ(watcher_.end()->text,
            "the job 'census.toml' has ended after 1m24s: loss 0.2732, AUC 0.9281, accuracy 0.8735");
  EXPECT_EQ(watcher_.end()->status, 0);
}

TEST_F(WatcherTest, EndsWithAJobWhoseMasterWasGoneBeforeItSaidSo) {
  watcher_.take(status("closing"), at(1));
  watcher_.take(gone(), at(2));
  ASSERT_TRUE(watcher_.end());
  EXPECT_EQ(watcher_.end()->status, 0);
}

TEST_F(WatcherTest, EndsWithTheErrorOfAFailedJob) {
  watcher_.take(status(), at(1));
  watcher_.take(Error(ErrorCode::kJobFailed, "shard 1 was lost"), at(2));
  ASSERT_TRUE(watcher_.end());
  EXPECT_EQ(watcher_.end()->text, "the job 'census.toml' has failed after 1m24s: shard 1 was lost");
  EXPECT_EQ(watcher_.end()->status, 1);
}

TEST_F(WatcherTest, EndsAtOnceWithWhatTheUserMustFix) {
  watcher_.take(Error(ErrorCode::kDenied, "wrong secret"), at(1));
  ASSERT_TRUE(watcher_.end());
  EXPECT_EQ(watcher_.end()->status, 2);
  Watcher impatient("127.0.0.1:7700", Watcher::Interval(1), false, begin_);
  impatient.take(gone(), at(1));
  ASSERT_TRUE(impatient.end());
  EXPECT_EQ(impatient.end()->status, 2);
}

}  // namespace
}  // namespace embers
