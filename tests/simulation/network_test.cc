// Proxies, links, dispatch and sessions of actors/frames on virtual time, over a network that breaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/actors.h"
#include "tests/support/expect_error.h"
#include "tests/support/simulated_network.h"

namespace embers {
namespace {

using namespace testing_support;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kWorker = wire::Role::WORKER;

// What a shard has seen: pulls by their minibatch, and -1 for the end of a sender.
using Seen = std::vector<int64_t>;

// Answers a pull with its minibatch after a while; those of every fifth one are errors that name it.
using SlowShard = ShardActor::extend<caf::reacts_to<uint64_t>>;
struct SlowShardState {
  std::vector<std::pair<Origin, caf::typed_response_promise<Message<wire::PullReply>>>> asked;
  std::set<caf::actor_addr> peers;
  static inline const char* name = "slow shard";
};
SlowShard::behavior_type slow_shard(SlowShard::stateful_pointer<SlowShardState> self, SimulatedNetwork* net,
                                    Seen* seen, milliseconds most) {
  self->set_down_handler([seen](caf::down_msg&) { seen->push_back(-1); });
  return {[=](const Message<wire::PullRequest>& m) {
            const Origin o = read(m.get().getOrigin());
            seen->push_back(static_cast<int64_t>(o.minibatch));
            const auto peer = self->current_sender()->address();
            if (self->state.peers.insert(peer).second) self->monitor(peer);
            const auto promise = self->make_response_promise<Message<wire::PullReply>>();
            self->delayed_send(self, net->time_up_to(most), uint64_t{self->state.asked.size()});
            self->state.asked.emplace_back(o, promise);
            return promise;
          },
          [](const Message<wire::RestoreRequest>&) { return make_message<wire::Empty>(); },
          [](const Message<wire::ImportRequest>&) { return make_message<wire::Empty>(); },
          [](const Message<wire::ScanRequest>&) { return make_message<wire::ScanReply>(); },
          [=](uint64_t which) {
            auto& [o, promise] = self->state.asked[which];
            const auto value = static_cast<float>(o.minibatch);
            const RowsShape shape{0, 1, 1};
            if (o.minibatch % 5 == 0)
              promise.deliver(to_caf(Error(ErrorCode::kStaleVersion, std::to_string(o.minibatch))));
            else
              promise.deliver(
                  make_pull_reply(o.version, {&shape, 1}, [value](size_t, auto rows) { rows[0] = value; }));
          }};
}

// A client process that asks a server process over a link that is kept.
class Network : public testing::Test {
 protected:
  explicit Network(SimulatedNetwork::Options options = {.seed = 1, .calm = true},
                   milliseconds answers_within = milliseconds(0))
      : net_(options) {
    shard_ = net_.system().spawn(slow_shard, &net_, &seen_, answers_within);
    server_->serve<ShardInterface>(Destination::kShard, caf::actor_cast<ShardActor>(shard_));
  }
  ~Network() override { caf::anon_send_exit(shard_, caf::exit_reason::kill); }

  ShardActor connect(wire::Role role = kWorker) {
    const auto link = net_.connect(*client_, *server_, role);
    link->keep();
    return link->proxy<ShardInterface>(Destination::kShard);
  }
  auto pull(const ShardActor& shard, uint64_t minibatch, bool create = false) {
    return net_.simulation().post(shard, make_pull(origin(minibatch), wire::ReadMode::LATEST, create, {}));
  }
  template <class T>
  void expect_denied(const ShardActor& shard, const std::shared_ptr<Outcome<T>>& outcome) {
    net_.run_until([&] { return !outcome->open(); }, seconds(10));
    ASSERT_TRUE(outcome->error);
    EXPECT_EQ(outcome->error->code(), ErrorCode::kDenied) << outcome->error->what();
    pull(shard, 1);
    net_.run_until([] { return false; }, seconds(1));
    EXPECT_EQ(seen_, (Seen{1}));  // over the next connection
  }
  void break_off() {
    net_.break_one([](const auto&, const auto&) { return true; });
  }

  Seen seen_;
  SimulatedNetwork net_;
  SimulatedNetwork::ProcessPtr client_ = net_.add_process("client"), server_ = net_.add_process("server");
  SlowShard shard_;
};

TEST_F(Network, KeepsRequestsUntilTheServerTakesThem) {
  const ShardActor shard = connect();
  const auto first = pull(shard, 1), second = pull(shard, 2);
  net_.run_until([] { return false; }, seconds(3));
  EXPECT_TRUE(first->open());
  server_->start();
  net_.run_until([&] { return !second->open(); });
  EXPECT_EQ(seen_, (Seen{1, 2}));
  EXPECT_EQ(read_rows(first->get(), 0, {0, 1, 1})[0], 1.0f);
}

TEST_F(Network, CarriesErrorsWithCodeAndMessage) {
  server_->start();
  const auto outcome = pull(connect(), 35);
  net_.run_until([&] { return !outcome->open(); });
  expect_error(ErrorCode::kStaleVersion, {"35"}, [&] { outcome->get(); });
}

TEST_F(Network, RefusesWhatARoleMayNotAskAndEndsItsConnection) {
  server_->start();
  const ShardActor shard = connect();
  expect_denied(shard, net_.simulation().post(shard, make_message<wire::RestoreRequest>()));
}

TEST_F(Network, RefusesClaimsThatARoleMayNotMake) {
  server_->start();
  const ShardActor shard = connect(wire::Role::READER);
  expect_denied(shard, pull(shard, 7, true));
}

TEST_F(Network, AnActorOfAKilledProcessWaitsForNothing) {
  const ShardActor shard = connect();
  const auto outcome = pull(shard, 1);
  net_.run_until([] { return false; }, seconds(1));
  net_.kill(*client_);
  net_.run_until([] { return false; }, milliseconds(1));
  EXPECT_TRUE(outcome->error);
  server_->start();
  net_.run_until([] { return false; }, seconds(60));
  EXPECT_EQ(seen_, Seen());
}

class SlowAnswers : public Network, public testing::WithParamInterface<uint64_t> {
 protected:
  SlowAnswers() : Network({.seed = GetParam(), .calm = true}, seconds(60)) {}
};

INSTANTIATE_TEST_SUITE_P(Seeds, SlowAnswers, testing::Range(uint64_t{1}, uint64_t{11}));

TEST_P(SlowAnswers, AreAskedForAgainInOrderWhenTheServerHasNoticedTheEndOfTheConnection) {
  server_->start();
  const ShardActor shard = connect();
  for (uint64_t minibatch = 1; minibatch < 5; ++minibatch) pull(shard, minibatch);
  net_.run_until([this] { return seen_.size() == 4; });
  break_off();
  net_.run_until([this] { return seen_.size() == 9; }, seconds(20));
  EXPECT_EQ(seen_, (Seen{1, 2, 3, 4, -1, 1, 2, 3, 4}));
}

TEST_P(SlowAnswers, OfAServerThatHasEndedAreItsLastWord) {
  server_->start();
  const ShardActor shard = connect();
  const auto open = pull(shard, 1);
  net_.run_until([this] { return seen_.size() == 1; });
  net_.leave(*server_, Error(ErrorCode::kJobFailed, "the disk is full"));
  net_.run_until([&] { return !open->open(); });
  expect_error(ErrorCode::kJobFailed, {"the disk is full"}, [&] { open->get(); });
  const auto later = pull(shard, 2);
  net_.run_until([&] { return !later->open(); });
  expect_error(ErrorCode::kJobFailed, {"the disk is full"}, [&] { later->get(); });
}

class BrokenNetwork : public Network, public testing::WithParamInterface<uint64_t> {
 protected:
  BrokenNetwork() : Network({.seed = GetParam()}, milliseconds(50)) {}
};

INSTANTIATE_TEST_SUITE_P(Seeds, BrokenNetwork, testing::Range(uint64_t{1}, uint64_t{21}));

TEST_P(BrokenNetwork, EveryRequestIsAnsweredOnceAndByItsOwnAnswer) {
  server_->start();
  const std::vector<ShardActor> shards{connect(), connect()};
  std::vector<std::shared_ptr<Outcome<wire::PullRequest>>> outcomes;
  for (int i = 1; i <= 10; ++i) net_.after(net_.time_up_to(milliseconds(2000)), [this] { break_off(); });
  for (uint64_t minibatch = 1; minibatch <= 200; ++minibatch)
    net_.after(milliseconds(10 * minibatch),
               [&, minibatch] { outcomes.push_back(pull(shards[minibatch % 2], minibatch)); });
  const auto all_answered = [&] {
    return outcomes.size() == 200 &&
           std::none_of(outcomes.begin(), outcomes.end(), [](const auto& o) { return o->open(); });
  };
  ASSERT_TRUE(net_.run_until(all_answered, std::chrono::minutes(5)));
  for (uint64_t minibatch = 1; minibatch <= 200; ++minibatch) {
    const auto& outcome = *outcomes[minibatch - 1];
    if (minibatch % 5 == 0) {
      ASSERT_TRUE(outcome.error);
      EXPECT_EQ(outcome.error->what(), std::to_string(minibatch));
    } else {
      EXPECT_EQ(read_rows(outcome.get(), 0, {0, 1, 1})[0], static_cast<float>(minibatch));
    }
  }
  EXPECT_GT(std::count(seen_.begin(), seen_.end(), -1), 0);
  EXPECT_GT(seen_.size() - std::count(seen_.begin(), seen_.end(), -1), 200u);  // some were asked twice
}

}  // namespace
}  // namespace embers
