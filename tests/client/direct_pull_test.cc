// What a worker reads straight from servers and what it asks of owners: the puller between a reader and
// owners that follow a script, simulated.
#include <gtest/gtest.h>

#include <set>

#include "actors/errors.h"
#include "client/pipeline/pull.h"
#include "tests/client/stage_testing.h"

namespace embers {
namespace {

using namespace testing_support;

// Servers with rows of these keys, each of value 1. Changed only before works are sent.
struct Servers {
  std::set<int64_t> rows;
  std::vector<std::optional<uint64_t>> versions{5, 6};
  std::optional<Error> error;
  int reads = 0;
};

DirectReader::behavior_type scripted_servers(DirectReader::pointer, std::shared_ptr<Servers> servers) {
  return {[servers](const DirectReadPtr& read) -> caf::result<uint64_t> {
    ++servers->reads;
    if (servers->error) return to_caf(*servers->error);
    uint64_t count = 0;
    read->found.clear();
    for (size_t t = 0; t < read->lists.size(); ++t) {
      auto& found = read->found.emplace_back(read->lists[t].keys.size());
      for (size_t i = 0; i < found.size(); ++i) {
        if (!servers->rows.contains(read->lists[t].keys.ints[i])) continue;
        read->places[t][i] = 1;
        found[i] = 1;
        ++count;
      }
    }
    read->versions = servers->versions;
    return count;
  }};
}

// Owners at version 9, whose rows are 2, and the keys that they are asked for.
struct Asked {
  std::optional<Error> error;
  bool silent = false;
  std::vector<caf::typed_response_promise<Message<wire::PullReply>>> kept;  // of a silent owner
  Arrivals<int64_t> keys;
};

ShardActor::behavior_type scripted_owner(ShardActor::pointer self, std::shared_ptr<Asked> asked) {
  return {
      [=](const Message<wire::PullRequest>& m) -> caf::result<Message<wire::PullReply>> {
        auto promise = self->make_response_promise<Message<wire::PullReply>>();
        std::vector<RowsShape> shapes;
        for (const TableSlices& t : read_slices(m.get().getTables(), 1)) {
          shapes.push_back({t.table, 1, t.keys.size()});
          for (const int64_t key : t.keys.ints) asked->keys.push_back(key);
        }
        if (asked->error)
          promise.deliver(to_caf(*asked->error));
        else if (asked->silent)
          asked->kept.push_back(promise);
        else
          promise.deliver(make_pull_reply(
              9, shapes, [](size_t, std::span<float> rows) { std::fill(rows.begin(), rows.end(), 2.0f); }));
        return promise;
      },
      [](const Message<wire::RestoreRequest>&) { return make_message<wire::Empty>(); },
      [](const Message<wire::ImportRequest>&) { return make_message<wire::Empty>(); },
      [](const Message<wire::ScanRequest>&) { return make_message<wire::ScanReply>(); },
  };
}

class DirectPull : public testing::Test {
 protected:
  DirectPull() {
    caf::actor_system& system = system_;
    auto owners = std::make_shared<Owners>();
    for (int i = 0; i < 2; ++i)
      owners->handles.push_back({OptimizerActor(), system.spawn(scripted_owner, asked_)});
    owners->map = even_owner_map(2, 16);
    owners->tables = {table("a", 1)};
    owners->direct = system.spawn(scripted_servers, servers_);
    owners_ = owners;
    const auto end = system.spawn(collector, finished_);
    const auto worker = system.spawn(note_failures, failures_);
    puller_ = spawn_puller(system_, owners_, {owners->tables, {}}, {}, end, worker);
    actors_ = {caf::actor_cast<caf::actor>(end), caf::actor_cast<caf::actor>(worker),
               caf::actor_cast<caf::actor>(puller_), caf::actor_cast<caf::actor>(owners->direct)};
    for (const OwnerHandles& owner : owners->handles)
      actors_.push_back(caf::actor_cast<caf::actor>(owner.shard));
  }
  ~DirectPull() override {
    for (const caf::actor& actor : actors_) caf::anon_send_exit(actor, caf::exit_reason::kill);
  }
  // The first n keys of an owner.
  std::vector<int64_t> keys_of(size_t owner, size_t n) const {
    std::vector<int64_t> keys;
    for (int64_t key = 0; keys.size() < n; ++key)
      if (owner_of(owners_->map, hash_key(key)) == owner) keys.push_back(key);
    return keys;
  }
  struct KeyWork : Work {
    Keys unique;
  };
  static WorkPtr work_of(std::vector<int64_t> keys, bool exact = false) {
    auto work = std::make_shared<KeyWork>();
    work->origin = origin(1);
    work->exact = exact;
    work->unique = Keys(std::move(keys));
    work->keys = {{0, work->unique}};
    return work;
  }
  void send(const WorkPtr& work) {
    caf::anon_send(puller_, work);
    system_.settle();
  }
  WorkPtr pull(std::vector<int64_t> keys, bool exact = false) {
    send(work_of(std::move(keys), exact));
    if (finished_->empty()) throw std::runtime_error("the work did not come out");
    return finished_->front();
  }
  static std::vector<float> rows(const Work& work) {
    const auto span = work.rows.bets[0].span();
    return {span.begin(), span.end()};
  }
  using Versions = std::vector<std::optional<uint64_t>>;

  Simulation system_;
  std::shared_ptr<Servers> servers_ = std::make_shared<Servers>();
  std::shared_ptr<Asked> asked_ = std::make_shared<Asked>();
  std::shared_ptr<Finished> finished_ = std::make_shared<Finished>();
  std::shared_ptr<Failures> failures_ = std::make_shared<Failures>();
  std::shared_ptr<const Owners> owners_;
  StageActor puller_;
  std::vector<caf::actor> actors_;
};

TEST_F(DirectPull, WhatIsThereIsNotAskedOfOwners) {
  const auto a = keys_of(0, 2), b = keys_of(1, 1);
  servers_->rows = {a[0], a[1], b[0]};
  const WorkPtr work = pull({a[0], b[0], a[1]});
  EXPECT_EQ(rows(*work), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(work->versions, (Versions{5, 6}));
  EXPECT_EQ(work->direct_rows, 3);
  EXPECT_EQ(work->owner_rows, 0);
  EXPECT_TRUE(asked_->keys.empty());
}

TEST_F(DirectPull, OnlyWhatIsMissingIsAskedOfItsOwner) {
  const auto a = keys_of(0, 3), b = keys_of(1, 2);
  servers_->rows = {a[0], a[2], b[1]};
  const WorkPtr work = pull({b[0], a[0], a[1], a[2], b[1]});
  EXPECT_EQ(rows(*work), (std::vector<float>{2, 1, 2, 1, 1}));
  EXPECT_EQ(work->versions, (Versions{5, 6})) << "what was read first is the older";
  EXPECT_EQ(work->direct_rows, 3);
  EXPECT_EQ(work->owner_rows, 2);
  EXPECT_EQ(asked_->keys.size(), 2);
}

TEST_F(DirectPull, WithoutAnythingThereOwnersVersionsCount) {
  const WorkPtr work = pull({keys_of(1, 1)});
  EXPECT_EQ(work->versions, (Versions{std::nullopt, 9}));
  EXPECT_EQ(rows(*work), (std::vector<float>{2}));
}

TEST_F(DirectPull, AnExactVersionIsAskedOfOwnersOnly) {
  const auto keys = keys_of(0, 2);
  servers_->rows = {keys[0], keys[1]};
  EXPECT_EQ(rows(*pull(keys, true)), (std::vector<float>{2, 2}));
  EXPECT_EQ(servers_->reads, 0);
}

// So that work.dense_reads says which steps they have, however they come.
TEST_F(DirectPull, DenseParametersArePulledAgainFromWhereTheyCameFrom) {
  Owners owners = *owners_;
  owners.tables[0].name = kDenseTable;
  const Keys keys(std::vector<int64_t>{keys_of(0, 1)[0], keys_of(1, 1)[0]});
  servers_->rows = {keys_of(0, 1)[0], keys_of(1, 1)[0]};
  const auto again = [&](std::vector<std::optional<DenseRead>> before) {
    Work work;
    work.origin = origin(1);
    work.versions.resize(2);
    work.dense_reads = std::move(before);
    work.rows.dense = FloatBuffer(2);
    caf::scoped_actor self{system_};
    pull_dense_again(self, owners, work, keys);
    const auto span = work.rows.dense.span();
    return std::pair(std::vector<float>(span.begin(), span.end()), work.dense_reads[1].has_value());
  };
  EXPECT_EQ(again({std::nullopt, std::nullopt}), (std::pair(std::vector<float>{1, 1}, false)));
  EXPECT_EQ(servers_->reads, 1);
  EXPECT_EQ(again({DenseRead{8, 3}, std::nullopt}), (std::pair(std::vector<float>{2, 2}, true)));
  EXPECT_EQ(servers_->reads, 1);
}

TEST_F(DirectPull, OwnersKnowBetterWhatBecameOfAServer) {
  servers_->error = Error(ErrorCode::kUnavailable, "server x does not answer");
  asked_->error = Error(ErrorCode::kLost, "7 of 9 rows are gone");
  send(work_of(keys_of(0, 1)));
  const Failures& failures = *failures_;
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].code, ErrorCode::kLost);
  EXPECT_EQ(failures[0].message, "7 of 9 rows are gone");
}

TEST_F(DirectPull, AServerThatOnlyTheWorkerCannotReachEndsTheWork) {
  servers_->error = Error(ErrorCode::kUnreachable, "server x does not answer");
  send(work_of(keys_of(0, 1)));
  const Failures& failures = *failures_;
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].code, ErrorCode::kLost);
  EXPECT_NE(failures[0].message.find("server x does not answer"), std::string::npos) << failures[0].message;
  EXPECT_TRUE(finished_->empty());
}

TEST_F(DirectPull, OwnersThatSayNothingAreNotWaitedForLong) {
  servers_->error = Error(ErrorCode::kUnavailable, "server x does not answer");
  asked_->silent = true;
  send(work_of(keys_of(0, 1)));
  EXPECT_TRUE(failures_->empty());
  system_.pass(kVerdict);
  const Failures& failures = *failures_;
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_NE(failures[0].message.find("server x does not answer"), std::string::npos) << failures[0].message;
}

TEST_F(DirectPull, AValueThatIsNoRowFailsTheWorkAtOnce) {
  servers_->error = Error(ErrorCode::kCorrupt, "not a row of embers");
  send(work_of(keys_of(0, 1)));
  const Failures& failures = *failures_;
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].code, ErrorCode::kCorrupt);
  EXPECT_TRUE(asked_->keys.empty());
}

TEST_F(DirectPull, LatePullsGoTheSameWay) {
  const auto a = keys_of(0, 1), b = keys_of(1, 2);
  servers_->rows = {a[0], b[1]};
  const auto late = [&](Work& work, const Keys& keys) {
    caf::scoped_actor self{system_};
    std::vector<float> out(keys.size());
    pull_now(self, *owners_, work, {{0, keys}}, {out});
    return out;
  };
  Work work;
  work.origin = origin(1);
  work.versions = {0, std::nullopt};
  EXPECT_EQ(late(work, Keys(std::vector<int64_t>{b[0], a[0], b[1]})), (std::vector<float>{2, 1, 1}));
  EXPECT_EQ(work.versions, (Versions{0, 6})) << "version 0 was read before";
  EXPECT_EQ(work.direct_rows, 2);
  EXPECT_EQ(work.owner_rows, 1);
  servers_->error = Error(ErrorCode::kUnavailable, "server x does not answer");
  EXPECT_THROW(late(work, Keys(a)), Error);
}

}  // namespace
}  // namespace embers
