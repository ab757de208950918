// Conversations with one owner, message by message.
#include "actors/owner/owner.h"

#include <gtest/gtest.h>

#include "actors/owner/staleness.h"
#include "tests/support/actors.h"
#include "tests/support/expect_error.h"
#include "tests/support/simulated_servers.h"
#include "tests/support/simulation.h"

namespace embers {
namespace {

using namespace testing_support;
using Outcomes = wire::PushReply::Outcome;

class Owner : public Simulation {
 public:
  explicit Owner(bool sync, std::vector<TableSpec> tables = {table("a", 2), table("s", 1, KeyKind::kBytes)})
      : Owner(owner_config(sync, std::move(tables))) {}
  explicit Owner(OwnerConfig config) : config_(std::move(config)) {
    config_.on_end = [this](bool ok, const std::string& message) { ended_ = std::pair(ok, message); };
    handles_ = spawn_owner(*this, config_);
  }
  ~Owner() {
    end_owner(handles_);
    settle();
  }
  const OwnerHandles& handles() const { return handles_; }
  const std::optional<std::pair<bool, std::string>>& ended() const { return ended_; }

  Message<wire::PullRequest> pull_request(const std::vector<int64_t>& ints, const Origin& from,
                                          bool create = true, bool exact = false) const {
    const Keys keys(ints);
    const TableSlices slices{0, keys, 0, {}};
    return make_pull(from, exact ? wire::ReadMode::EXACT : wire::ReadMode::LATEST, create, {&slices, 1});
  }
  std::vector<float> pull(const std::vector<int64_t>& ints, const Origin& from = origin(0),
                          bool create = true, bool exact = false) {
    const auto reply = ask(handles_.shard, pull_request(ints, from, create, exact));
    const auto rows = read_rows(reply.get(), 0, {0, 2, ints.size()});
    return {rows.begin(), rows.end()};
  }
  Message<wire::PushRequest> push_request(const Origin& from, const std::vector<int64_t>& ints,
                                          const std::vector<float>& grads) const {
    const Keys keys(ints);
    const TableSlices slices{0, keys, 2, grads};
    return make_push(from, {&slices, 1});
  }
  Message<wire::PushReply> push(const Origin& from, const std::vector<int64_t>& ints,
                                const std::vector<float>& grads) {
    return ask(handles_.optimizer, push_request(from, ints, grads));
  }
  struct Part {
    uint64_t minibatch;
    double weight = 1;
  };
  static Message<wire::CommitRequest> commit_request(uint64_t version, std::vector<Part> parts) {
    return make_message<wire::CommitRequest>([&](wire::CommitRequest::Builder b) {
      b.setVersion(version);
      auto list = b.initMinibatches(static_cast<unsigned>(parts.size()));
      for (unsigned i = 0; i < parts.size(); ++i) {
        list[i].setMinibatch(parts[i].minibatch);
        list[i].setWeight(parts[i].weight);
      }
    });
  }
  Message<wire::CommitReply> commit(uint64_t version, std::vector<Part> parts) {
    return ask(handles_.optimizer, commit_request(version, std::move(parts)));
  }
  Message<wire::StatsReply> stats(uint32_t epoch = 1) {
    return ask(handles_.optimizer,
               make_message<wire::StatsRequest>([&](wire::StatsRequest::Builder b) { b.setEpoch(epoch); }));
  }

 private:
  OwnerConfig config_;
  std::optional<std::pair<bool, std::string>> ended_;
  OwnerHandles handles_;
};

TableSpec ones() {
  TableSpec spec = table("a", 2);
  spec.initializer.name = "ones";
  return spec;
}

// --- lookups -------------------------------------------------------------------------------------

TEST(Pull, CreatesRowsOfUnknownKeysWithTheirFirstValues) {
  Owner owner(false, {ones()});
  EXPECT_EQ(owner.pull({5, -9}), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(owner.stats().get().getRows(), 2);
}

TEST(Pull, WithoutCreateReadsFirstValuesAndCreatesNothing) {
  Owner owner(false, {ones()});
  EXPECT_EQ(owner.pull({5}, origin(0), false), (std::vector<float>{1, 1}));
  EXPECT_EQ(owner.stats().get().getRows(), 0);
}

TEST(Pull, MixesKnownAndUnknownKeysInTheOrderAsked) {
  Owner owner(false);
  owner.pull({1, 3});
  owner.push(origin(0), {1, 3}, {-1, -2, -3, -4});
  EXPECT_EQ(owner.pull({2, 3, 1}), (std::vector<float>{0, 0, 3, 4, 1, 2}));
}

TEST(Pull, OfADenseChunkThatNobodySetIsAnErrorNamingIt) {
  Owner owner(false, {table(kDenseTable, 1024, KeyKind::kBytes)});
  const Keys keys(std::vector<std::string>{"linear.weight#3"});
  const TableSlices slices{0, keys, 0, {}};
  expect_error(ErrorCode::kMissingKey, {"_dense", "linear.weight#3"}, [&] {
    owner.ask(owner.handles().shard, make_pull(origin(0), wire::ReadMode::LATEST, true, {&slices, 1}));
  });
}

TEST(Pull, RoutedByAnOldMapOrOfAnotherRunIsRefused) {
  Owner owner(false);
  Origin stale = origin(0), stranger = origin(0);
  stale.map_version = 9;
  stranger.job = 8;
  expect_error(ErrorCode::kStaleMap, {"9", "1"}, [&] { owner.pull({1}, stale); });
  expect_error(ErrorCode::kMismatch, {"0000000000000008"}, [&] { owner.pull({1}, stranger); });
}

TEST(Pull, OfAnUnknownTableOrOtherKindOfKeyIsRefused) {
  Owner owner(false);
  const Keys strings(std::vector<std::string>{"x"});
  for (const TableSlices& slices : {TableSlices{99, strings, 0, {}}, TableSlices{0, strings, 0, {}}}) {
    const auto outcome =
        owner.start(owner.handles().shard, make_pull(origin(0), wire::ReadMode::LATEST, true, {&slices, 1}));
    EXPECT_TRUE(outcome->error);
  }
  EXPECT_EQ(owner.pull({1}), (std::vector<float>{0, 0})) << "the shard goes on";
}

TEST(Pull, WhoseReplyWouldBeTooLargeIsRefusedBeforeAnythingIsAllocated) {
  Owner owner(false, {table("wide", 1 << 30)});
  expect_error(ErrorCode::kInvalid, {"too large"}, [&] {
    const Keys keys(std::vector<int64_t>{1, 2, 3});
    const TableSlices slices{0, keys, 0, {}};
    owner.ask(owner.handles().shard, make_pull(origin(0), wire::ReadMode::LATEST, false, {&slices, 1}));
  });
}

TEST(Pull, OfAVersionToComeWaitsForItsCommit) {
  Owner owner(true);
  owner.pull({1});
  owner.push(origin(0), {1}, {-1, -1});
  const auto early = owner.start(owner.handles().shard, owner.pull_request({1}, origin(1, 1), true, true));
  const auto later = owner.start(owner.handles().shard, owner.pull_request({1}, origin(2, 2), true, true));
  EXPECT_TRUE(early->open());
  owner.commit(1, {{0}});
  EXPECT_EQ(early->get().getVersion(), 1);
  EXPECT_EQ(read_rows(early->get(), 0, {0, 2, 1})[0], 1);
  EXPECT_TRUE(later->open());
  owner.commit(2, {});
  EXPECT_EQ(later->get().getVersion(), 2);
}

TEST(Pull, OfAnExactVersionThatIsPastIsStale) {
  Owner owner(true);
  owner.commit(1, {});
  expect_error(ErrorCode::kStaleVersion, {"0", "1"}, [&] { owner.pull({1}, origin(0, 0), true, true); });
  EXPECT_EQ(owner.pull({1}, origin(0, 0)), (std::vector<float>{0, 0})) << "the latest may be read";
}

// --- async ---------------------------------------------------------------------------------------

TEST(AsyncPush, IsAppliedWhenItArrives) {
  Owner owner(false);
  owner.pull({1, 2});
  const auto reply = owner.push(origin(0), {1}, {1, 2});
  EXPECT_EQ(reply.get().getOutcome(), Outcomes::APPLIED);
  EXPECT_EQ(reply.get().getVersion(), 1);
  EXPECT_EQ(reply.get().getExamples(), 10);
  EXPECT_EQ(owner.pull({1, 2}), (std::vector<float>{-1, -2, 0, 0}));
}

TEST(AsyncPush, IsAStepThatItsSendersPullsAreToldOf) {
  Owner owner(false);
  const auto from = [](uint64_t sender, uint64_t minibatch, uint64_t step) {
    Origin o = origin(minibatch);
    o.incarnation = sender;
    o.step = step;
    return o;
  };
  const auto own_step = [&](uint64_t sender) {
    return owner.ask(owner.handles().shard, owner.pull_request({1}, from(sender, 0, 0))).get().getOwnStep();
  };
  EXPECT_EQ(own_step(1), 0);
  owner.push(from(1, 0, 17), {1}, {1, 1});
  owner.push(from(2, 1, 5), {1}, {1, 1});
  owner.push(from(1, 2, 0), {1}, {1, 1});
  EXPECT_EQ(own_step(1), 17) << "another sender's and no step change nothing";
  EXPECT_EQ(own_step(2), 5);
  EXPECT_EQ(own_step(3), 0);
  owner.push(from(2, 0, 6), {1}, {1, 1});
  EXPECT_EQ(own_step(2), 5) << "a duplicate is not applied";
}

TEST(AsyncPush, ComingTwiceIsAppliedOnce) {
  Owner owner(false);
  owner.pull({1});
  owner.push(origin(4), {1}, {1, 1});
  EXPECT_EQ(owner.push(origin(4), {1}, {1, 1}).get().getOutcome(), Outcomes::DUPLICATE);
  EXPECT_EQ(owner.pull({1}), (std::vector<float>{-1, -1}));
  EXPECT_EQ(owner.stats().get().getDuplicates(), 1);
  EXPECT_EQ(owner.stats().get().getExamples(), 10);
}

TEST(AsyncPush, OfTheNextEpochIsAnotherMinibatchAndOfAnOldOneADuplicate) {
  Owner owner(false);
  owner.pull({1});
  owner.push(origin(0, 0, 1), {1}, {1, 1});
  EXPECT_EQ(owner.push(origin(0, 0, 2), {1}, {1, 1}).get().getOutcome(), Outcomes::APPLIED);
  EXPECT_EQ(owner.push(origin(9, 0, 1), {1}, {1, 1}).get().getOutcome(), Outcomes::DUPLICATE);
}

TEST(AsyncPush, WithoutGradientsCounts) {
  Owner owner(false);
  EXPECT_EQ(owner.ask(owner.handles().optimizer, make_push(origin(0), {})).get().getOutcome(),
            Outcomes::APPLIED);
  EXPECT_EQ(owner.stats().get().getMinibatches(), 1);
  EXPECT_EQ(owner.stats().get().getExamples(), 10);
}

TEST(AsyncPush, WithAnEmptyListOfStringKeysCounts) {
  Owner owner(false);
  const TableSlices none{1, KeysView{KeyKind::kBytes, {}, {}, {}}, 1, {}};
  EXPECT_EQ(owner.ask(owner.handles().optimizer, make_push(origin(0), {&none, 1})).get().getOutcome(),
            Outcomes::APPLIED);
}

TEST(AsyncPush, TellsHowManyAppliesCameBetweenItsPullAndIt) {
  Owner owner(false);
  owner.pull({1});
  for (uint64_t m = 0; m < 3; ++m) owner.push(origin(m, m), {1}, {0, 0});
  EXPECT_EQ(owner.push(origin(3, 1), {1}, {0, 0}).get().getStaleness(), 2);
  EXPECT_EQ(owner.ask(owner.handles().optimizer, make_push(origin(4, 0), {})).get().getStaleness(), 0)
      << "nothing was pulled for it";
  const Staleness staleness = read_staleness(owner.stats().get());
  EXPECT_EQ(staleness.sum, 2);
  EXPECT_EQ(staleness.max, 2);
  EXPECT_EQ(staleness.pushes(), 4) << "those with gradients";
}

TEST(AsyncPush, BeginsTheStalenessOfItsEpochAnew) {
  Owner owner(false);
  owner.pull({1});
  owner.push(origin(0), {1}, {0, 0});
  owner.push(origin(1), {1}, {0, 0});
  EXPECT_EQ(owner.stats(1).get().getMaxStaleness(), 1);
  owner.push(origin(0, 2, 2), {1}, {0, 0});
  EXPECT_EQ(read_staleness(owner.stats(2).get()).pushes(), 1);
  EXPECT_EQ(owner.stats(2).get().getMaxStaleness(), 0);
  EXPECT_EQ(read_staleness(owner.stats(1).get()).pushes(), 0) << "an epoch that is over";
}

// Zhang et al., "Staleness-aware Async-SGD" (2016): the learning rate is divided by the staleness, if that is
// above 1. Buffers are assigned, so the learning rate does not matter to them.
TEST(AsyncPush, HasItsLearningRateDividedByItsStalenessIfTheJobSaysSo) {
  TableSpec buffers = table(kBufferTable, 2);
  buffers.update_rule = {"assign", {}};
  for (const bool modulated : {false, true}) {
    OwnerConfig config = owner_config(false, {table("a", 2), buffers});
    config.staleness_modulation = modulated;
    Owner owner(config);
    owner.pull({1, 2, 3, 4});
    const Keys keys(std::vector<int64_t>{1});
    const std::vector<float> none{0, 0}, grads{-4, -8};
    const TableSlices row{1, keys, 2, none};
    owner.ask(owner.handles().shard, make_restore({&row, 1}, false));
    owner.push(origin(0, 0), {1}, grads);
    owner.push(origin(1, 0), {2}, grads);
    owner.push(origin(2, 0), {3}, grads);
    EXPECT_EQ(owner.pull({1, 2, 3}),
              modulated ? (std::vector<float>{4, 8, 4, 8, 2, 4}) : (std::vector<float>{4, 8, 4, 8, 4, 8}));
    const std::vector<TableSlices> both{{0, keys, 2, none}, {1, keys, 2, grads}};
    owner.ask(owner.handles().optimizer, make_push(origin(3, 0), both));
    const TableSlices wanted{1, keys, 0, {}};
    const auto reply =
        owner.ask(owner.handles().shard, make_pull(origin(0), wire::ReadMode::LATEST, false, {&wanted, 1}));
    EXPECT_EQ(read_rows(reply.get(), 0, {1, 2, 1})[1], -8);
  }
}

// One apply, one version, one step: a reader sees dense and embedding rows of the same version.
TEST(Push, OfDenseAndEmbeddingGradientsIsOneApply) {
  for (const bool sync : {false, true}) {
    TableSpec dense = table(kDenseTable, kDenseChunk);
    Owner owner(sync, {table("a", 2), dense});
    const Keys keys(std::vector<int64_t>{1});
    const std::vector<float> zeros(kDenseChunk), ones(kDenseChunk, 1.0f), row{1, 1};
    const TableSlices first{1, keys, kDenseChunk, zeros};
    owner.ask(owner.handles().shard, make_restore({&first, 1}, true));
    const std::vector<TableSlices> wanted{{0, keys, 0, {}}, {1, keys, 0, {}}};
    const auto sums = [&] {
      const auto reply =
          owner.ask(owner.handles().shard, make_pull(origin(0), wire::ReadMode::LATEST, true, wanted));
      return std::vector<float>{static_cast<float>(reply.get().getVersion()),
                                read_rows(reply.get(), 0, {0, 2, 1})[0],
                                read_rows(reply.get(), 1, {1, kDenseChunk, 1})[kDenseChunk - 1]};
    };
    EXPECT_EQ(sums(), (std::vector<float>{0, 0, 0}));
    const std::vector<TableSlices> both{{0, keys, 2, row}, {1, keys, kDenseChunk, ones}};
    owner.ask(owner.handles().optimizer, make_push(origin(0), both));
    if (sync) {
      EXPECT_EQ(sums(), (std::vector<float>{0, 0, 0})) << "staged";
      owner.commit(1, {{0}});
    }
    EXPECT_EQ(sums(), (std::vector<float>{1, -1, -1}));
    EXPECT_EQ(owner.stats().get().getMinibatches(), 1);
  }
}

TEST(AsyncPush, OfAFencedWorkerIsRefusedAndOfOthersTaken) {
  Owner owner(false);
  owner.pull({1});
  owner.ask(owner.handles().optimizer,
            make_message<wire::FenceRequest>([](wire::FenceRequest::Builder b) { b.setIncarnation(1); }));
  expect_error(ErrorCode::kFenced, {"has given up on this worker"}, [&] {
    owner.push(origin(0), {1}, {1, 1});
  });
  Origin other = origin(0);
  other.incarnation = 2;
  EXPECT_EQ(owner.push(other, {1}, {1, 1}).get().getOutcome(), Outcomes::APPLIED);
}

TEST(AsyncPush, ThatFailsChangesNothingAndMayComeAgain) {
  Owner owner(false);
  expect_error(ErrorCode::kMissingKey, {"key 1"}, [&] { owner.push(origin(0), {1}, {1, 1}); });
  EXPECT_EQ(owner.stats().get().getMinibatches(), 0);
  owner.pull({1});
  EXPECT_EQ(owner.push(origin(0), {1}, {1, 1}).get().getOutcome(), Outcomes::APPLIED);
  EXPECT_EQ(owner.stats().get().getMinibatches(), 1);
}

TEST(AsyncPush, OfTheWrongShapeIsRefusedNamingTheTable) {
  Owner owner(false);
  owner.pull({1});
  const Keys keys(std::vector<int64_t>{1});
  const std::vector<float> three{1, 2, 3};
  const TableSlices wide{0, keys, 3, three};
  expect_error(ErrorCode::kInvalid, {"dim 3", "'a' of dim 2"}, [&] {
    owner.ask(owner.handles().optimizer, make_push(origin(0), {&wide, 1}));
  });
}

// --- sync ----------------------------------------------------------------------------------------

TEST(SyncPush, IsStagedUntilItsCommit) {
  Owner owner(true);
  owner.pull({1});
  EXPECT_EQ(owner.push(origin(0), {1}, {1, 2}).get().getOutcome(), Outcomes::STAGED);
  EXPECT_EQ(owner.pull({1}), (std::vector<float>{0, 0}));
  EXPECT_EQ(owner.stats().get().getExamples(), 0);
  const auto reply = owner.commit(1, {{0}});
  EXPECT_EQ(reply.get().getVersion(), 1);
  EXPECT_EQ(reply.get().getExamples(), 10);
  EXPECT_EQ(owner.pull({1}), (std::vector<float>{-1, -2}));
}

TEST(SyncPush, ComputedOnAnotherVersionIsStale) {
  Owner owner(true);
  owner.pull({1});
  expect_error(ErrorCode::kStaleVersion, {"minibatch 3", "version 5"}, [&] {
    owner.push(origin(3, 5), {1}, {1, 1});
  });
}

TEST(SyncPush, TheFirstOfSeveralAttemptsCounts) {
  Owner owner(true);
  owner.pull({1});
  const auto outcome = [&](uint32_t attempt, float gradient) {
    return owner.push(origin(0, 0, 1, attempt), {1}, {gradient, gradient}).get().getOutcome();
  };
  EXPECT_EQ(outcome(2, 1), Outcomes::STAGED);
  EXPECT_EQ(outcome(1, 2), Outcomes::DUPLICATE) << "of a worker that was late";
  EXPECT_EQ(outcome(3, 3), Outcomes::DUPLICATE);
  EXPECT_EQ(outcome(2, 4), Outcomes::STAGED) << "asked again";
  EXPECT_EQ(owner.stats().get().getDuplicates(), 2);
  owner.commit(1, {{0}});
  EXPECT_EQ(owner.pull({1}), (std::vector<float>{-1, -1}));
  EXPECT_EQ(outcome(4, 5), Outcomes::DUPLICATE) << "it is applied";
}

TEST(SyncPush, OfAWorkerFencedAfterItStagedStillCounts) {
  Owner owner(true);
  owner.pull({1});
  owner.push(origin(0), {1}, {1, 1});
  owner.ask(owner.handles().optimizer,
            make_message<wire::FenceRequest>([](wire::FenceRequest::Builder b) { b.setIncarnation(1); }));
  owner.commit(1, {{0}});
  EXPECT_EQ(owner.pull({1}), (std::vector<float>{-1, -1}));
}

TEST(Commit, AddsUpInItsOrderWhateverTheOrderOfArrival) {
  const auto row = [](std::vector<uint64_t> arrival) {
    Owner owner(true);
    owner.pull({1});
    const std::map<uint64_t, float> grads{{0, -1e8f}, {1, 1e8f}, {2, -1.0f}};
    for (const uint64_t m : arrival) owner.push(origin(m), {1}, {grads.at(m), 0});
    owner.commit(1, {{0}, {1}, {2}});
    return owner.pull({1})[0];
  };
  EXPECT_EQ(row({0, 1, 2}), 1);
  EXPECT_EQ(row({2, 1, 0}), 1);
  EXPECT_EQ(row({1, 2, 0}), 1);
}

TEST(Commit, WeighsEachMinibatch) {
  Owner owner(true);
  owner.pull({1});
  owner.push(origin(0), {1}, {4, 4});
  owner.push(origin(1), {1}, {8, 8});
  owner.commit(1, {{0, 0.75}, {1, 0.25}});
  EXPECT_EQ(owner.pull({1}), (std::vector<float>{-5, -5}));
}

TEST(Commit, AskedAgainIsAnsweredAndAppliedOnce) {
  Owner owner(true);
  owner.pull({1});
  owner.push(origin(0), {1}, {1, 1});
  const auto first = owner.post(owner.handles().optimizer, Owner::commit_request(1, {{0}}));
  const auto second = owner.post(owner.handles().optimizer, Owner::commit_request(1, {{0}}));
  owner.settle();
  EXPECT_EQ(first->get().getVersion(), 1);
  EXPECT_EQ(second->get().getExamples(), 10);
  EXPECT_EQ(owner.commit(1, {{0}}).get().getExamples(), 10);
  EXPECT_EQ(owner.pull({1}), (std::vector<float>{-1, -1}));
}

TEST(Commit, OfAPushThatComesAgainLaterMakesItADuplicate) {
  Owner owner(true);
  owner.pull({1});
  owner.push(origin(0), {1}, {1, 1});
  owner.commit(1, {{0}});
  EXPECT_EQ(owner.push(origin(0, 1), {1}, {1, 1}).get().getOutcome(), Outcomes::DUPLICATE);
}

TEST(Commit, OfWhatWasNeverStagedOrTwiceInItChangesNothing) {
  Owner owner(true);
  owner.pull({1});
  owner.push(origin(0), {1}, {1, 1});
  expect_error(ErrorCode::kInternal, {"minibatch 5 was never staged"}, [&] { owner.commit(1, {{0}, {5}}); });
  expect_error(ErrorCode::kInvalid, {"minibatch 0", "twice"}, [&] { owner.commit(1, {{0}, {0}}); });
  EXPECT_EQ(owner.pull({1}), (std::vector<float>{0, 0}));
  EXPECT_EQ(owner.commit(1, {{0}}).get().getExamples(), 10);
}

TEST(Commit, OfAnyOtherVersionThanTheNextIsStale) {
  Owner owner(true);
  expect_error(ErrorCode::kStaleVersion, {"version 2 reached an owner at version 0"},
               [&] { owner.commit(2, {}); });
}

// --- restore, scan, resume, end ------------------------------------------------------------------

TEST(Restore, OnlyAbsentLeavesRowsAlone) {
  Owner owner(false);
  owner.pull({1});
  const Keys keys(std::vector<int64_t>{1, 2});
  const std::vector<float> values{5, 5, 6, 6};
  const TableSlices slices{0, keys, 2, values};
  owner.ask(owner.handles().shard, make_restore({&slices, 1}, true));
  EXPECT_EQ(owner.pull({1, 2}), (std::vector<float>{0, 0, 6, 6}));
  owner.ask(owner.handles().shard, make_restore({&slices, 1}, false));
  EXPECT_EQ(owner.pull({1, 2}), (std::vector<float>{5, 5, 6, 6}));
}

TEST(Restore, OfTheWrongWidthIsRefused) {
  Owner owner(false);
  const Keys keys(std::vector<int64_t>{1});
  const std::vector<float> values{5};
  const TableSlices slices{0, keys, 1, values};
  for (const bool absent : {false, true})
    expect_error(ErrorCode::kInvalid, {"'a'"}, [&] {
      owner.ask(owner.handles().shard, make_restore({&slices, 1}, absent));
    });
}

TEST(Scan, SeesEveryRowOnceWithItsSlotsIfAsked) {
  TableSpec spec = ones();
  spec.update_rule.name = "adam";
  Owner owner(false, {spec});
  std::vector<int64_t> keys(100);
  std::iota(keys.begin(), keys.end(), -50);
  owner.pull(keys);
  for (const bool slots : {false, true}) {
    std::vector<int64_t> seen;
    for (uint64_t cursor = 0; cursor != UINT64_MAX;) {
      const auto reply =
          owner.ask(owner.handles().shard, make_message<wire::ScanRequest>([&](wire::ScanRequest::Builder b) {
                      b.setCursor(cursor);
                      b.setLimit(7);
                      b.setSlots(slots);
                    }));
      for (const TableSlices& t : read_slices(reply.get().getRows(), 1)) {
        EXPECT_EQ(t.width, slots ? 6 : 2);
        EXPECT_EQ(t.values[0], 1);
        seen.insert(seen.end(), t.keys.ints.begin(), t.keys.ints.end());
      }
      cursor = reply.get().getNext();
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, keys);
  }
}

TEST(Scan, OfAnUnknownTableIsRefused) {
  Owner owner(false);
  expect_error(ErrorCode::kUnknownTable, {"2"}, [&] {
    owner.ask(owner.handles().shard,
              make_message<wire::ScanRequest>([](wire::ScanRequest::Builder b) { b.setTable(2); }));
  });
}

TEST(Resume, IsAnsweredThoughTheOwnerEndsMeanwhile) {
  Owner owner(false);
  owner.settle();
  const auto answer = owner.post(owner.handles().optimizer, make_message<wire::ResumeRequest>());
  owner.turn();  // the asker asks
  owner.turn();  // the optimizer asks its shard
  end_owner(owner.handles());
  owner.settle();
  expect_error(ErrorCode::kUnavailable, {"owner has ended"}, [&] { answer->get(); });
}

TEST(Resume, GoesOnWhereTheJobStood) {
  Owner owner(true);
  owner.ask(owner.handles().optimizer, make_message<wire::ResumeRequest>([](wire::ResumeRequest::Builder b) {
              b.setEpoch(3);
              b.setVersion(8);
              b.setExamples(500);
              b.setMinibatches(50);
              b.initApplied(1).set(0, 2);
            }));
  EXPECT_EQ(owner.push(origin(2, 8, 3), {}, {}).get().getOutcome(), Outcomes::DUPLICATE);
  owner.pull({1}, origin(3, 8, 3), true, true);
  owner.push(origin(3, 8, 3), {1}, {1, 1});
  EXPECT_EQ(owner.commit(9, {{3}}).get().getExamples(), 510);
  EXPECT_EQ(owner.stats().get().getMinibatches(), 51);
}

// Only some owners had it when the job was saved, and those that lack it apply it now.
TEST(Resume, WhatWasAppliedBeforeCountsOnceWhenItIsPushedAgain) {
  Owner owner(false);
  owner.ask(owner.handles().optimizer, make_message<wire::ResumeRequest>([](wire::ResumeRequest::Builder b) {
              b.setEpoch(3);
              b.setExamples(500);
              b.setMinibatches(50);
              b.initApplied(1).set(0, 2);
            }));
  const auto before = owner.pull({1});
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(owner.push(origin(2, 0, 3), {1}, {1, 1}).get().getOutcome(), Outcomes::DUPLICATE);
    EXPECT_EQ(owner.stats().get().getExamples(), 510);
    EXPECT_EQ(owner.stats().get().getMinibatches(), 51);
  }
  EXPECT_EQ(owner.pull({1}), before);
  EXPECT_EQ(owner.push(origin(2, 0, 2), {1}, {1, 1}).get().getOutcome(), Outcomes::DUPLICATE);
  EXPECT_EQ(owner.stats().get().getExamples(), 510) << "of an epoch that is over";
}

// A link that is made again asks again what has no answer, and the old connection may deliver it late.
TEST(Resume, ThatComesAgainLateChangesNothing) {
  Owner owner(false);
  const auto resume = [&] {
    owner.ask(owner.handles().optimizer,
              make_message<wire::ResumeRequest>([](wire::ResumeRequest::Builder b) { b.setEpoch(1); }));
  };
  resume();
  owner.pull({1});
  owner.push(origin(3), {1}, {1, 1});
  resume();
  EXPECT_EQ(owner.stats().get().getExamples(), 10);
  EXPECT_EQ(owner.push(origin(3), {1}, {1, 1}).get().getOutcome(), Outcomes::DUPLICATE);
}

TEST(Restore, ThatComesAgainLateChangesNothing) {
  Owner owner(false);
  const Keys keys(std::vector<int64_t>{1});
  const std::vector<float> values{5, 5};
  const TableSlices slices{0, keys, 2, values};
  owner.ask(owner.handles().shard, make_restore({&slices, 1}, false));
  owner.push(origin(3), {1}, {1, 1});
  const auto trained = owner.pull({1});
  EXPECT_NE(trained, values);
  owner.ask(owner.handles().shard, make_restore({&slices, 1}, false));
  EXPECT_EQ(owner.pull({1}), trained);
}

TEST(Import, ThatIsAskedAgainAfterLaterOnesIsTakenOnce) {
  Owner owner(false);
  const Keys keys(std::vector<int64_t>{1});
  const auto import = [&](uint64_t incarnation, uint64_t number, std::vector<float> row) {
    const TableSlices slices{0, keys, 2, row};
    owner.ask(owner.handles().shard, make_import({1, incarnation, number}, {&slices, 1}));
    return owner.pull({1});
  };
  import(7, 1, {1, 1});
  EXPECT_EQ(import(7, 2, {2, 2}), (std::vector<float>{2, 2}));
  EXPECT_EQ(import(7, 1, {1, 1}), (std::vector<float>{2, 2}));
  EXPECT_EQ(import(8, 1, {3, 3}), (std::vector<float>{3, 3})) << "another session's";
}

TEST(Stats, LeaveReservedTablesOutOfTheRows) {
  Owner owner(false, {table("a", 2), table(kDenseTable, 4, KeyKind::kBytes)});
  const Keys keys(std::vector<std::string>{"w#0"});
  const std::vector<float> values(4);
  const TableSlices slices{1, keys, 4, values};
  owner.ask(owner.handles().shard, make_restore({&slices, 1}, true));
  owner.pull({1, 2});
  EXPECT_EQ(owner.stats().get().getRows(), 2);
  EXPECT_GT(owner.stats().get().getResidentBytes(), 0);
}

TEST(End, TellsTheProcessHowTheJobEnded) {
  Owner owner(false);
  owner.ask(owner.handles().optimizer, make_message<wire::EndRequest>([](wire::EndRequest::Builder b) {
              b.setOk(false);
              b.setMessage("lost shard 1");
            }));
  EXPECT_EQ(owner.ended(), std::pair(false, std::string("lost shard 1")));
}

TEST(Errors, KeepTheirCodeAndTextThroughCaf) {
  const Error back = from_caf(to_caf(Error(ErrorCode::kStaleLease, "lease 3 of 'x'")));
  EXPECT_EQ(back.code(), ErrorCode::kStaleLease);
  EXPECT_STREQ(back.what(), "lease 3 of 'x'");
  EXPECT_EQ(from_caf(caf::sec::request_timeout).code(), ErrorCode::kTimeout);
  EXPECT_EQ(from_caf(caf::sec::request_receiver_down).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(from_caf(caf::error{}).code(), ErrorCode::kUnavailable)
      << "the reason of an actor that ended normally";
}

TEST(SpawnOwner, RefusesAnUnknownBackendOrOptimizer) {
  Simulation simulation;
  OwnerConfig config = owner_config(false, {table("a", 1)});
  config.backend = "disk";
  expect_error(ErrorCode::kInvalid, {"disk", "memory"}, [&] { spawn_owner(simulation, config); });
  config = owner_config(false, {table("a", 1)});
  config.tables[0].update_rule.name = "adamm";
  expect_error(ErrorCode::kInvalid, {"adam"}, [&] { spawn_owner(simulation, config); });
}

// --- with a journal ------------------------------------------------------------------------------

TEST(Journal, WhoseStagedPushesCannotBeClearedIsTheAnswerToTheCommit) {
  SimulatedHost host(1);
  SimulatedServers servers(1);
  const auto process = host.start();
  OwnerConfig config = owner_config(true, {table("a", 2)});
  config.backend = "redis";
  config.external = {"job", config.job, 0, "/journal", process.get()};
  config.connect_servers = [&] { return servers.connect(process); };
  Owner owner(config);
  owner.pull({1});
  owner.push(origin(0), {1}, {-1, -2});
  process->remove("/journal/shard-0.staged");
  process->create_directories("/journal/shard-0.staged");
  expect_error(ErrorCode::kInvalid, {"/journal/shard-0.staged"}, [&] { owner.commit(1, {{0}}); });
}

}  // namespace
}  // namespace embers
