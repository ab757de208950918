// JobState of a job whose model comes with its first worker.
#include <gtest/gtest.h>

#include <map>

#include "master/state/job_state.h"

namespace embers::first_worker_testing {
namespace {

ToldModel model() {
  ToldModel told;
  TableSpec table;
  table.name = "a";
  table.dim = 2;
  table.update_rule = {"sgd", {{"learning_rate", 1.0}}};
  told.model.tables = {table};
  told.records = 9;
  told.batch_size = 2;
  told.epochs = 3;
  return told;
}

class FirstWorker : public testing::Test {
 protected:
  explicit FirstWorker(const std::string& resume = "") {
    auto config = std::make_shared<JobConfig>();
    config->job = job::parse_job({"(no job file)", "", {"job.heartbeat_timeout=10"}});
    config->shards = 2;
    config->settings = job::settings(config->job.source);
    config->resume = resume;
    if (!resume.empty()) config->saved_model = signature(model().model);
    state_.emplace(config, 0, false, now_);
  }

  std::vector<Effect> give(decltype(Event::what) what) {
    std::vector<Effect> effects = state_->on({now_, std::move(what)});
    for (const Effect& e : effects) {
      if (const auto* connect = std::get_if<Effect::Connect>(&e.what)) connects_.push_back(*connect);
      if (const auto* answer = std::get_if<Effect::Answer>(&e.what)) answers_[answer->ticket] = answer->reply;
      if (const auto* refuse = std::get_if<Effect::Refuse>(&e.what))
        refusals_[refuse->ticket] = refuse->error.what();
    }
    return effects;
  }

  Ticket join_owner(uint64_t link) {
    Event::Join e;
    e.ticket = ++last_;
    e.link = link;
    e.owner = true;
    give(e);
    connect();
    return e.ticket;
  }

  // The master reaches them, and they answer.
  void connect() {
    for (const Effect::Connect& c : std::exchange(connects_, {}))
      go_on(give(Event::Connected{c.incarnation}));
  }

  Event::Join worker(std::optional<ToldModel> told = model()) {
    Event::Join e;
    e.ticket = ++last_;
    e.link = 100 + last_;
    if (told) e.model = signature(told->model);
    if (told) e.told = std::make_shared<ToldModel>(*told);
    e.settings = {"job.heartbeat_timeout = 10", "order = 7"};
    return e;
  }

  uint64_t incarnation(Ticket ticket) { return std::get<Reply::Join>(answers_.at(ticket)).incarnation; }

  // Owners and files answer; the owners have done nothing.
  void go_on(std::vector<Effect> effects) {
    for (bool more = true; more;) {
      more = false;
      for (const Effect& e : std::exchange(effects, {})) {
        std::vector<Effect> next;
        if (const auto* ask = std::get_if<Effect::Ask>(&e.what))
          next = give(Event::OwnerAnswered{ask->number, ask->incarnation, ask->id, OwnerCounts()});
        if (std::holds_alternative<Effect::Save>(e.what)) next = give(Event::Saved{});
        more |= !next.empty();
        effects.insert(effects.end(), next.begin(), next.end());
      }
    }
  }

  void begin(uint32_t epoch) {
    join_owner(1);
    join_owner(2);
    const Event::Join first = worker();
    give(first);
    connect();
    worker_ = incarnation(first.ticket);
    go_on(give(Event::Prepared{{.epoch = epoch}}));
  }

  // There is nothing to do after the third epoch.
  void begin_and_end() {
    begin(4);
    ASSERT_EQ(state_->phase(), Phase::kEnding);
  }

  void pass(double seconds, std::initializer_list<uint64_t> alive = {}) {
    for (double passed = 0; passed < seconds; passed += 0.5) {
      now_ += std::chrono::milliseconds(500);
      for (const uint64_t incarnation : alive) give(Event::Heartbeat{++last_, incarnation});
      give(Event::Tick{});
    }
  }

  Time now_{std::chrono::hours(1)};
  std::optional<JobState> state_;
  Ticket last_ = 0;
  std::vector<Effect::Connect> connects_;
  std::map<Ticket, Reply::Any> answers_;
  std::map<Ticket, std::string> refusals_;
  uint64_t worker_ = 0;
};

TEST_F(FirstWorker, IsWaitedForByShards) {
  const Ticket first = join_owner(1);
  EXPECT_FALSE(answers_.contains(first)) << "it has no tables yet";
  EXPECT_TRUE(state_->wants_model());
  EXPECT_EQ(state_->status(now_).shards.joined, 1);
  EXPECT_EQ(state_->status(now_).epochs, 0);
  pass(100);
  EXPECT_FALSE(refusals_.contains(first)) << "one that waits is not silent";
  const Event::Join e = worker();
  EXPECT_TRUE(connects_.empty()) << "nobody answers there yet";
  const std::vector<Effect> effects = give(e);
  EXPECT_TRUE(std::holds_alternative<Effect::Adopt>(effects.at(0).what))
      << "what is answered holds the tables";
  EXPECT_EQ(connects_.size(), 1u);
  connect();
  EXPECT_TRUE(answers_.contains(first));
  EXPECT_FALSE(state_->wants_model());
  const Ticket second = join_owner(2);
  EXPECT_TRUE(answers_.contains(second)) << "at once";
  EXPECT_TRUE(answers_.contains(e.ticket));
  EXPECT_EQ(state_->phase(), Phase::kPreparing);
  EXPECT_EQ(state_->status(now_).epochs, 3);
}

TEST_F(FirstWorker, DoesNotFindAShardThatWentMeanwhile) {
  const Ticket gone = join_owner(1);
  give(Event::LinkDown{1, "the connection ended"});
  EXPECT_TRUE(refusals_.contains(gone));
  EXPECT_FALSE(state_->error()) << "it held nothing";
  const Event::Join e = worker();
  give(e);
  const Ticket first = join_owner(2), second = join_owner(3);
  EXPECT_TRUE(answers_.contains(first) && answers_.contains(second) && answers_.contains(e.ticket));
}

TEST_F(FirstWorker, MustSayWhatTheModelIs) {
  const auto refused = [&](const Event::Join& e) { return give(e), refusals_[e.ticket]; };
  EXPECT_NE(refused(worker(std::nullopt)).find("this one says nothing"), std::string::npos);
  Event::Join other = worker();
  other.settings = {"job.heartbeat_timeout = 11"};
  EXPECT_NE(refused(other).find("job.heartbeat_timeout = 10 at the master"), std::string::npos);
  EXPECT_TRUE(state_->wants_model()) << "who is refused brings nothing";
  give(worker());
  const auto differs = [&](auto change) {
    ToldModel told = model();
    change(told);
    return refused(worker(told));
  };
  EXPECT_NE(differs([](ToldModel& t) { t.model.tables[0].dim = 3; }).find("dim 2"), std::string::npos);
  EXPECT_NE(differs([](ToldModel& t) {
              t.model.tables[0].update_rule.params["learning_rate"] = 2;
            }).find("optimizer sgd { learning_rate = 1 } at the master"),
            std::string::npos);
  EXPECT_NE(differs([](ToldModel& t) { t.drop_last = true; }).find("drop_last"), std::string::npos);
  Event::Join data = worker();
  data.settings[1] = "order = 8";
  EXPECT_NE(refused(data).find("order = 7 at the master"), std::string::npos);
  const Event::Join same = worker();
  EXPECT_EQ(refused(same), "");
}

class ResumedFirstWorker : public FirstWorker {
 protected:
  ResumedFirstWorker() : FirstWorker("saved") {}
};

TEST_F(ResumedFirstWorker, MustAgreeWithTheCheckpoint) {
  ToldModel told = model();
  told.model.tables[0].dim = 3;
  const Event::Join other = worker(told);
  give(other);
  EXPECT_NE(refusals_[other.ticket].find("saved was saved by another model: table 'a': dim 2"),
            std::string::npos);
  told = model();
  told.epochs = 9;
  told.model.tables[0].update_rule.params["learning_rate"] = 2;
  const Event::Join next = worker(told);
  give(next);
  EXPECT_FALSE(refusals_.contains(next.ticket)) << refusals_[next.ticket];
  EXPECT_FALSE(state_->wants_model());
}

TEST_F(FirstWorker, MayStayWhenNothingIsLeftToDo) {
  begin_and_end();
  pass(100, {worker_});
  EXPECT_EQ(state_->phase(), Phase::kEnding) << "it may still look rows up";
  give(Event::Leave{++last_, worker_});
  EXPECT_EQ(state_->phase(), Phase::kClosing);
}

TEST_F(FirstWorker, IsNotWaitedForWhenItIsSilent) {
  begin_and_end();
  pass(8);
  EXPECT_EQ(state_->phase(), Phase::kEnding);
  pass(4);
  EXPECT_EQ(state_->phase(), Phase::kClosing);
}

// A job with data of its own whose model is a Python module.
class PythonModel : public FirstWorker {
 protected:
  PythonModel() {
    auto config = std::make_shared<JobConfig>();
    config->job =
        job::parse_job({"job.toml",
                        "[model]\npython = \"net:Net\"\n[data]\ntrain = \"a\"\ncolumns = [{ name = \"x\" }]\n"
                        "[training]\nbatch_size = 4\nepochs = 2",
                        {}});
    config->shards = 2;
    config->train_records = 10;
    config->train_minibatches = 3;
    config->settings = {"data = 7"};
    state_.emplace(config, 0, false, now_);
  }

  Event::Join python_worker(const std::string& data = "data = 7") {
    Event::Join e = worker();
    e.settings = {data};
    return e;
  }
};

TEST_F(PythonModel, ComesWithTheFirstWorkerAndTheWorkWithTheJobFile) {
  EXPECT_TRUE(state_->wants_model());
  EXPECT_EQ(state_->status(now_).epochs, 2) << "known before any worker comes";
  join_owner(1);
  join_owner(2);
  const Event::Join first = python_worker();
  give(first);
  connect();
  EXPECT_TRUE(answers_.contains(first.ticket));
  EXPECT_FALSE(state_->wants_model());
  go_on(give(Event::Prepared{{.epoch = 1}}));
  EXPECT_EQ(state_->status(now_).epochs, 2) << "not the worker's three";
  EXPECT_EQ(state_->status(now_).minibatches, 3u);
}

TEST_F(PythonModel, MustBeOfTheSameData) {
  const Event::Join other = python_worker("data = 8");
  give(other);
  EXPECT_NE(refusals_[other.ticket].find("data = 7 at the master, data = 8 at the worker"),
            std::string::npos);
  EXPECT_TRUE(state_->wants_model()) << "who is refused brings nothing";
  Event::Join nothing = python_worker();
  nothing.told = nullptr;
  give(nothing);
  EXPECT_NE(refusals_[nothing.ticket].find("the model is a Python module"), std::string::npos);
  give(python_worker());
  Event::Join differs = python_worker();
  ToldModel told = model();
  told.model.tables[0].dim = 3;
  differs.told = std::make_shared<ToldModel>(told);
  give(differs);
  EXPECT_NE(refusals_[differs.ticket].find("the model differs from the first worker's"), std::string::npos);
}

TEST_F(PythonModel, WaitsForNoWorkerAtItsEnd) {
  join_owner(1);
  join_owner(2);
  const Event::Join first = python_worker();
  give(first);
  connect();
  go_on(give(Event::Prepared{{.epoch = 3}}));
  ASSERT_EQ(state_->phase(), Phase::kEnding);
  pass(6, {incarnation(first.ticket)});
  EXPECT_EQ(state_->phase(), Phase::kClosing) << "it is told that there is no more, and goes";
}

TEST_F(FirstWorker, IsNotWaitedForByAJobThatIsStopped) {
  begin(1);
  ASSERT_EQ(state_->phase(), Phase::kTraining);
  go_on(give(Event::Stop{"SIGINT"}));
  EXPECT_EQ(state_->phase(), Phase::kEnding);
  pass(6);
  EXPECT_EQ(state_->phase(), Phase::kClosing);
}

}  // namespace
}  // namespace embers::first_worker_testing
