// Programs that look rows up in a running job: their threads wait in client::Session, so the job behind it is
// not simulated.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <fstream>
#include <set>
#include <thread>

#include "tests/actors/transport_testing.h"
#include "tests/client/running_job.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;
using client::Minibatch;
using client::Session;

std::vector<int64_t> some_keys(int64_t n) {
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < n; ++i) keys.push_back(i * 1000003 - 7);
  return keys;
}

std::vector<float> lookup(Session& session, const std::vector<int64_t>& keys) {
  std::vector<float> rows(keys.size() * kUserDim, -1);
  session.lookup("user", keys, rows);
  return rows;
}

// A worker that has asked for work: training has begun.
Session begun(RunningJob& job) { return Session::join_as_worker(job.worker_options()); }

// Trains `minibatch` on these keys: every row loses `step` in each column.
void train(Minibatch minibatch, const std::vector<int64_t>& keys, float step) {
  const client::TableKeys pulled[] = {{.table = "user", .ints = keys}};
  minibatch.pull(pulled);
  ASSERT_TRUE(minibatch.wait());
  const std::vector<float> gradient(keys.size() * kUserDim, step), scores(2, 0.5f);
  const std::span<const float> rows[] = {gradient}, parameters[] = {{}};
  minibatch.push(rows, parameters, {.examples = 2, .scores = scores});
}

TEST(Reader, ReadsWhatOwnersHoldAndInitialValuesElse) {
  RunningJob job;
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  EXPECT_EQ(reader.job(), "live");
  ASSERT_EQ(reader.tables().size(), 2u) << "without the tables of the dense model";
  EXPECT_EQ(reader.table("word").keys, client::KeyType::kBytes);
  EXPECT_EQ(reader.table("user").dim, kUserDim);
  EXPECT_EQ(reader.table("user").rows, 0);
  EXPECT_EQ(reader.table("user").dtype, "float32");
  EXPECT_EQ(reader.table("user").partition, "token");

  const std::vector<int64_t> keys = some_keys(20), trained(keys.begin(), keys.begin() + 10);
  const std::vector<float> before = lookup(reader, keys);
  EXPECT_EQ(job.rows(), 0u) << "looking up makes no rows";
  train(worker.lease(), trained, 0.25f);
  ASSERT_TRUE(wait_until([&] { return job.rows() == 10 && lookup(reader, keys)[0] != before[0]; }, 20));
  const std::vector<float> after = lookup(reader, keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    const Keys key(std::vector<int64_t>{keys[i]});
    EXPECT_EQ(std::vector<float>(after.begin() + i * kUserDim, after.begin() + (i + 1) * kUserDim),
              job.row("user", key));
    for (size_t c = 0; c < kUserDim; ++c)
      EXPECT_EQ(after[i * kUserDim + c], before[i * kUserDim + c] - (i < 10 ? 0.25f : 0)) << i;
  }
  EXPECT_EQ(job.rows(), 10u);
}

TEST(Reader, ReadsByteKeysAndTheSameKeyTwice) {
  RunningJob job;
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  std::vector<std::string> words{"", "a", "b", "a"};
  for (int i = 0; i < 30; ++i) words.push_back("word " + std::to_string(i));
  {
    const std::vector<std::string_view> trained{"a", "", "word 3"};
    const client::TableKeys pulled[] = {{.table = "word", .bytes = trained}};
    Minibatch minibatch = worker.lease();
    minibatch.pull(pulled);
    ASSERT_TRUE(minibatch.wait());
    const std::vector<float> gradient{1, 2, 3}, scores(2);
    const std::span<const float> rows[] = {gradient}, parameters[] = {{}};
    minibatch.push(rows, parameters, {.examples = 2, .scores = scores});
  }
  const std::vector<std::string_view> keys(words.begin(), words.end());
  std::vector<float> rows(keys.size());
  ASSERT_TRUE(wait_until([&] { return reader.lookup("word", keys, rows).newest > 0 && rows[1] != 0; }, 20));
  ASSERT_TRUE(
      wait_until([&] { return reader.lookup("word", keys, rows), rows[0] != 0 && rows[7] != 0; }, 20));
  std::vector<float> expected(keys.size());
  expected[0] = -2;
  expected[1] = expected[3] = -1;
  expected[7] = -3;
  EXPECT_EQ(rows, expected);
}

TEST(Reader, LooksUpMoreThanFitsIntoOneMessage) {
  RunningJob job;
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  const auto keys = some_keys(9'000'000);  // 72 MB
  const std::vector<float> rows = lookup(reader, keys);
  for (const size_t i : {size_t{0}, size_t{4'194'303}, size_t{4'194'304}, size_t{8'999'999}})
    EXPECT_EQ(std::vector<float>(rows.begin() + i * kUserDim, rows.begin() + (i + 1) * kUserDim),
              job.row("user", Keys(std::vector<int64_t>{keys[i]})))
        << i;
}

TEST(Reader, SaysWhatIsWrongWithAQuestion) {
  RunningJob job;
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  const std::vector<int64_t> keys = some_keys(3);
  std::vector<float> rows(3 * kUserDim);
  expect_error(ErrorCode::kUnknownTable, {"'users'", "did you mean 'user'?"},
               [&] { reader.lookup("users", keys, rows); });
  expect_error(ErrorCode::kUnknownTable, {"'_dense'"}, [&] { reader.lookup(kDenseTable, keys, rows); });
  expect_error(ErrorCode::kUnknownTable, {"'wordy'", "'word'"}, [&] { reader.table("wordy"); });
  expect_error(ErrorCode::kInvalid, {"'word' has bytes keys, but int64"},
               [&] { reader.lookup("word", keys, rows); });
  rows.pop_back();
  expect_error(ErrorCode::kInvalid, {"3 rows of table 'user' has 5 floats, but 6"},
               [&] { reader.lookup("user", keys, rows); });
  expect_error(ErrorCode::kInvalid, {"join as a worker"}, [&] { reader.lease(); });
  rows.push_back(0);
  EXPECT_NO_THROW(reader.lookup("user", keys, rows)) << "none of that ended the session";
  EXPECT_EQ(reader.lookup("user", std::span<const int64_t>(), {}).newest, 0u);
}

TEST(Reader, SaysThatNobodyIsThereOrThatTheJobHasNotBegun) {
  expect_error(ErrorCode::kInvalid, {"'nowhere'"}, [&] { Session::join_as_reader({.master = "nowhere"}); });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(Session::join_as_reader({.master = "127.0.0.1:1", .connect_timeout = 200ms}), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);

  RunningJob job;  // waits for its worker
  client::Options options = job.options();
  options.timeout = 2s;
  expect_error(ErrorCode::kTimeout, {"'live'", job.address(), "has not begun"},
               [&] { Session::join_as_reader(options); });
  auto joining = std::async(std::launch::async, [&] { return Session::join_as_reader(job.options()); });
  EXPECT_TRUE(job.has_event("reader 1"));
  EXPECT_EQ(joining.wait_for(200ms), std::future_status::timeout);
  Session worker = begun(job);
  EXPECT_EQ(joining.get().job(), "live");
}

TEST(Reader, DoesNotWaitForAMasterThatDoesNotAnswer) {
  RunningJob job;
  Session worker = begun(job);
  job.hold();
  auto first = std::async(std::launch::async, [&] { return Session::join_as_reader(job.options()); });
  ASSERT_TRUE(wait_until([&] { return job.is_held(); }, 20));
  client::Options options = job.options();
  options.timeout = 300ms;
  expect_error(ErrorCode::kTimeout, {job.address(), "does not say what its job is"},
               [&] { Session::join_as_reader(options); });
  job.release();
  EXPECT_EQ(first.get().job(), "live");
}

TEST(Reader, IsNotWaitedFor) {
  RunningJob job({.mode = "sync", .minibatches = 6, .epochs = 2});
  auto joining = std::async(std::launch::async, [&] { return Session::join_as_reader(job.options()); });
  Session worker = begun(job);
  Session reader = joining.get();
  const auto keys = some_keys(5);
  size_t trained = 0;
  while (Minibatch minibatch = worker.lease()) {
    EXPECT_LE(minibatch.version(), trained);
    train(std::move(minibatch), keys, 1);
    lookup(reader, keys);
    ++trained;
  }
  EXPECT_EQ(trained, 12u);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.workers_joined, 1u);
  EXPECT_EQ(result.report.workers_lost, 0u);
  EXPECT_EQ(result.report.total.examples, 24u);
  job.end_master();
  expect_error(ErrorCode::kEnded, {"'live' has ended"}, [&] {
    for (;;) lookup(reader, keys);  // until the end of the job has reached it
  });
  expect_error(ErrorCode::kEnded, {"'live' has ended"}, [&] { lookup(reader, keys); });
}

TEST(Reader, SeesThatTheJobHasEndedThoughOwnersWentFirst) {
  RunningJob job({.minibatches = 1});
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  const auto keys = some_keys(5);
  train(worker.lease(), keys, 1);
  EXPECT_FALSE(worker.lease());
  EXPECT_FALSE(job.result().error);
  job.stop_owner(0);
  job.stop_owner(1);
  std::thread ends([&] {
    std::this_thread::sleep_for(100ms);
    job.end_master();
  });
  expect_error(ErrorCode::kEnded, {"'live' has ended"}, [&] {
    for (;;) lookup(reader, keys);
  });
  ends.join();
}

TEST(Reader, MayComeAndGoWithoutATrace) {
  RunningJob job;
  Session worker = begun(job);
  for (int i = 0; i < 3; ++i) {
    Session reader = Session::join_as_reader(job.options());
    lookup(reader, some_keys(3));
    reader.close();
    expect_error(ErrorCode::kInvalid, {"left its job"}, [&] { lookup(reader, some_keys(3)); });
  }
  EXPECT_TRUE(job.has_event("reader 2 (pid"));
  size_t trained = 0;
  for (; Minibatch minibatch = worker.lease(); ++trained) train(std::move(minibatch), some_keys(1), 1);
  EXPECT_EQ(trained, 4u);
  EXPECT_FALSE(job.result().error);
}

TEST(Reader, CanBeUsedByManyThreads) {
  RunningJob job;
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  const auto keys = some_keys(500);
  const std::vector<float> expected = lookup(reader, keys);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) wrong += lookup(reader, keys) != expected;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Reader, GoesOnWithTheNextProcessOfAnOwner) {
  RunningJob job({.keeps_journal = true});
  auto options = job.worker_options();
  Session worker = Session::join_as_worker(options), reader = Session::join_as_reader(job.options());
  const auto keys = some_keys(20);
  const std::vector<float> before = lookup(reader, keys);
  job.stop_owner(1);
  ASSERT_TRUE(job.has_event("waiting"));
  auto looked_up = std::async(std::launch::async, [&] { return lookup(reader, keys); });
  EXPECT_EQ(looked_up.wait_for(200ms), std::future_status::timeout);
  job.start_owner(1);
  EXPECT_EQ(looked_up.get(), before);
  EXPECT_EQ(lookup(reader, keys), before);
}

TEST(Reader, GivesUpOnAnOwnerThatDoesNotComeBackInTime) {
  RunningJob job({.keeps_journal = true});
  Session worker = begun(job);
  client::Options options = job.options();
  options.timeout = 1s;
  Session reader = Session::join_as_reader(options);
  const auto keys = some_keys(20);
  lookup(reader, keys);
  job.stop_owner(1);
  expect_error(ErrorCode::kTimeout, {"'user'", "shard 1"}, [&] {
    for (;;) lookup(reader, keys);
  });
}

TEST(Reader, SaysWhyTheJobFailed) {
  RunningJob job;
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  job.stop_owner(1);
  expect_error(ErrorCode::kJobFailed, {"lost shard 1"}, [&] {
    for (;;) lookup(reader, some_keys(20));
  });
}

TEST(Reader, NamesTheMasterItLost) {
  RunningJob job;
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  job.lose_master();
  expect_error(ErrorCode::kLost, {"the master at " + job.address()}, [&] {
    for (;;) lookup(reader, some_keys(1));
  });
}

TEST(Reader, BelongsToTheProcessThatJoined) {
  RunningJob job;
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  const auto keys = some_keys(4);
  const std::vector<float> before = lookup(reader, keys);
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      lookup(reader, keys);
    } catch (const Error& e) {
      status = std::string(e.what()).find("join again in the child") == std::string::npos ? 2 : 0;
    }
    { const Session ended = std::move(reader); }  // must not touch the parent's connections
    ::_exit(status);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(lookup(reader, keys), before);
}

// --- at the door ---------------------------------------------------------------------------------

template <class I>
std::set<std::string> kinds_for_readers() {
  std::set<std::string> kinds;
  detail::ForEachRequest<I>::call([&]<class T>() {
    const Kind kind = KindOf<T>::kind;
    if (may_send(wire::Role::READER, kind)) kinds.insert(std::string(name(kind)));
  });
  return kinds;
}

// Sends each request that a reader may not send.
template <class I>
void expect_denied(const Endpoint& to, Destination destination) {
  detail::ForEachRequest<I>::call([&]<class T>() {
    const Kind kind = KindOf<T>::kind;
    if (may_send(wire::Role::READER, kind)) return;
    RawPeer peer(to);
    peer.shake_hands(wire::Role::READER);
    peer.send(make_message<T>(), destination, 1);
    const Error error = peer.receive_error();
    EXPECT_EQ(error.code(), ErrorCode::kDenied) << name(kind);
    EXPECT_EQ(error.what(), "the role reader may not send " + std::string(name(kind)));
  });
}

TEST(Reader, IsRefusedEverythingThatChangesTheJob) {
  EXPECT_EQ(kinds_for_readers<MasterInterface>(),
            (std::set<std::string>{"JobRequest", "JoinRequest", "OwnersRequest", "OrderRequest",
                                   "HeartbeatRequest", "LeaveRequest"}));
  EXPECT_EQ(kinds_for_readers<OptimizerInterface>(), std::set<std::string>());
  EXPECT_EQ(kinds_for_readers<ShardInterface>(), (std::set<std::string>{"PullRequest", "ScanRequest"}));

  RunningJob job;
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  expect_denied<MasterInterface>(job.endpoint(), Destination::kMaster);
  expect_denied<OptimizerInterface>(job.owner_endpoint(0), Destination::kOptimizer);
  expect_denied<ShardInterface>(job.owner_endpoint(0), Destination::kShard);
  const auto send = [](const Endpoint& to, Destination destination, const auto& message) {
    RawPeer peer(to);
    peer.shake_hands(wire::Role::READER);
    peer.send(message, destination, 1);
    return peer.receive_error();
  };
  const Error as_worker =
      send(job.endpoint(), Destination::kMaster,
           make_message<wire::JoinRequest>([](auto b) { b.setRole(wire::Role::WORKER); }));
  EXPECT_EQ(as_worker.code(), ErrorCode::kDenied) << as_worker.what();
  const Error creates = send(job.owner_endpoint(0), Destination::kShard,
                             make_pull(origin(0), wire::ReadMode::LATEST, true, {}));
  EXPECT_EQ(creates.code(), ErrorCode::kDenied) << creates.what();

  const auto keys = some_keys(3);
  for (int i = 0; i < 4; ++i) train(worker.lease(), keys, 1);
  EXPECT_NO_THROW(lookup(reader, keys)) << "other readers go on";
  const JobResult result = job.result();
  EXPECT_FALSE(result.error);
  EXPECT_EQ(result.report.total.examples, 8u);
}

TEST(Reader, IsNotToldThePasswordOfTheJobsServers) {
  RunningJob job({.server_password = "for owners and workers"});
  EXPECT_EQ(job.password_of_owner(0), "for owners and workers");
  Session worker = begun(job);
  caf::scoped_actor self{job.system()};
  const auto reply = ask(
      self.ptr(), job.master(),
      make_message<wire::JoinRequest>([](wire::JoinRequest::Builder b) { b.setRole(wire::Role::READER); }));
  EXPECT_EQ(reply.get().getServerPassword(), "");
}

class Guarded : public testing::Test {
 protected:
  std::string secret_file(const std::string& name, mode_t mode = 0600) const {
    const std::string file = dir_ / name;
    std::ofstream(file) << "the secret in file " << std::string(20, name[0]) << "\n";
    EXPECT_EQ(::chmod(file.c_str(), mode), 0);
    return file;
  }

  TempDir dir_;
};

TEST_F(Guarded, AReaderNeedsTheSecretOfTheJob) {
  RunningJob job({.secret_file = secret_file("right")});
  Session worker = begun(job), reader = Session::join_as_reader(job.options());
  const auto keys = some_keys(20);
  const std::vector<float> before = lookup(reader, keys);
  train(worker.lease(), keys, 1);
  EXPECT_TRUE(wait_until([&] { return lookup(reader, keys) != before; }, 20));

  client::Options options = job.options();
  const auto expect_refused = [&](ErrorCode code, const std::string& part) {
    expect_error(code, {part}, [&] { Session::join_as_reader(options); });
  };
  options.secret_file = "";
  expect_refused(ErrorCode::kDenied, "asks for its secret");
  options.insecure = true;
  expect_refused(ErrorCode::kDenied, "asks for its secret");
  options.insecure = false;
  options.secret_file = secret_file("wrong");
  expect_refused(ErrorCode::kDenied, "wrong secret");
  options.secret_file = secret_file("open", 0644);
  expect_refused(ErrorCode::kInvalid, "chmod 600");
  EXPECT_NO_THROW(lookup(reader, keys));
}

TEST_F(Guarded, ASecretGoesOnlyToAMasterThatKnowsIt) {
  RunningJob job;
  client::Options options = job.options();
  options.secret_file = secret_file("right");
  expect_error(ErrorCode::kDenied, {"does not know the job's secret"},
               [&] { Session::join_as_reader(options); });
}

TEST_F(Guarded, AJobIsFoundByItsDirectory) {
  const std::string path = dir_ / "live";
  client::Options options{.job_dir = path, .connect_timeout = 100ms};
  expect_error(ErrorCode::kUnreachable, {"'" + path + "/address'"},
               [&] { Session::join_as_reader(options); });
  options.connect_timeout = 20s;
  auto joining = std::async(std::launch::async, [&] { return Session::join_as_reader(options); });

  JobDir dir(path);
  dir.secret();
  RunningJob job({.secret_file = path + "/secret"});
  dir.announce({job.endpoint()});
  client::WorkerOptions worker_options = job.worker_options();
  worker_options.master = worker_options.secret_file = "";
  worker_options.job_dir = path;
  Session worker = Session::join_as_worker(worker_options), reader = joining.get();
  EXPECT_EQ(lookup(reader, some_keys(3)).size(), 3 * kUserDim);
  job.lose_master();
  expect_error(ErrorCode::kLost, {"the master of '" + path + "'"}, [&] {
    for (;;) lookup(reader, some_keys(1));
  });
}

TEST(Reader, NeedsEitherAnAddressOrADirectory) {
  for (const client::Options& options : {client::Options{}, {.master = "127.0.0.1:1", .job_dir = "live"}})
    expect_error(ErrorCode::kInvalid, {"Options::master", "Options::job_dir"},
                 [&] { Session::join_as_reader(options); });
}

TEST(Reader, DoesNotGoBeyondThisHostWithoutASecret) {
  client::Options options{.master = "192.0.2.1:7700", .connect_timeout = 100ms};
  expect_error(ErrorCode::kInvalid, {"192.0.2.1:7700", "without the job's secret"},
               [&] { Session::join_as_reader(options); });
  options.insecure = true;
  expect_error(ErrorCode::kUnreachable, {"192.0.2.1:7700"}, [&] { Session::join_as_reader(options); });
}

}  // namespace
}  // namespace embers
