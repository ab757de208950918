// Owners with tables in memcached and a journal, and the owners that take their place.
#include <gtest/gtest.h>

#include <filesystem>

#include "actors/ask.h"
#include "actors/owner/ledger.h"
#include "actors/owner/owner.h"
#include "tests/support/actors.h"
#include "tests/support/expect_error.h"
#include "tests/support/servers.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;
using Outcomes = wire::PushReply::Outcome;

// --- the ledger ----------------------------------------------------------------------------------

TEST(LedgerNote, ReadsBack) {
  const AppliedNote note{true, 3, 40, 41, 410, 5, {{7, 10}, {9, 3}}};
  const AppliedNote back = read_note(to_note(note).bytes);
  EXPECT_TRUE(back.first);
  EXPECT_EQ(back.epoch, 3u);
  EXPECT_EQ(back.version, 40u);
  EXPECT_EQ(back.minibatches, 41u);
  EXPECT_EQ(back.examples_before, 410u);
  EXPECT_EQ(back.left_out, 5u);
  EXPECT_EQ(back.applied, note.applied);
  expect_error(ErrorCode::kCorrupt, {"3 bytes"}, [] { read_note("abc"); });
}

TEST(LedgerNote, ALedgerComesBackFromItsNotesWhicheverComesTwice) {
  Ledger ledger;
  ledger.examples = 100;
  ledger.left_out = 1;
  ledger.begin_epoch(2);
  std::vector<AppliedNote> notes;
  notes.push_back(ledger.note(11, 11, 0, {{0, 10}}));
  ledger.mark_applied(0, 10);
  ledger.examples += 10;
  notes.push_back(ledger.note(12, 12, 3, {{5, 7}}));
  EXPECT_TRUE(notes[0].first);
  EXPECT_FALSE(notes[1].first);
  for (const bool twice : {false, true}) {
    Ledger back;
    for (const AppliedNote& note : notes) back.recover(note);
    if (twice) back.recover(notes.back());
    EXPECT_EQ(back.version, 12u);
    EXPECT_EQ(back.minibatches, 12u);
    EXPECT_EQ(back.examples, 117u);
    EXPECT_EQ(back.left_out, 4u);
    EXPECT_TRUE(back.is_applied(2, 0));
    EXPECT_TRUE(back.is_applied(2, 5));
    EXPECT_FALSE(back.is_applied(2, 1));
    EXPECT_TRUE(back.is_applied(1, 1)) << "an epoch that is over";
    EXPECT_EQ(back.applied(2, 5), 7u);
  }
}

TEST(LedgerNote, WhatAnEarlierRunAppliedStaysCountedOnceItHasBeen) {
  Ledger ledger;
  ledger.begin_epoch(2);
  ledger.examples = 100;
  ledger.minibatches = 10;
  ledger.mark_applied(4, 0);
  std::vector<AppliedNote> notes{ledger.note_of_all()};
  notes.push_back(ledger.count_resumed(2, 4, 9).value());
  EXPECT_FALSE(ledger.count_resumed(2, 4, 9)) << "once";
  notes.push_back(ledger.note(12, 12, 0, {{5, 7}}));
  for (const bool twice : {false, true}) {
    Ledger back;
    for (const AppliedNote& note : notes) back.recover(note);
    if (twice) back.recover(notes.back());
    EXPECT_EQ(back.examples, 116u);
    EXPECT_EQ(back.minibatches, 12u);
    EXPECT_FALSE(back.count_resumed(2, 4, 9)) << "it counts once";
  }
}

// --- owners --------------------------------------------------------------------------------------

class RecoveredOwner : public testing::TestWithParam<std::string> {
 protected:
  ~RecoveredOwner() override { end(); }

  OwnerConfig config(bool sync) const {
    TableSpec adam = table("a", 1), other = table("b", 1);
    adam.update_rule = {"adam", {{"learning_rate", 0.5}}};
    OwnerConfig c = owner_config(sync, {adam, other});
    c.backend = GetParam();
    c.servers = {server_.address()};
    c.external = {"job", 7, 0, dir_.path().string()};
    return c;
  }
  void start(bool sync, bool takes_over = false) {
    OwnerConfig c = config(sync);
    c.takes_over = takes_over;
    owner_ = spawn_owner(system_, c);
    if (!takes_over) resume(1, 0, {});
  }
  // As the master tells every owner before the first lease.
  void resume(uint32_t epoch, uint64_t minibatches, const std::vector<uint64_t>& applied) {
    ask(self_.ptr(), owner_.optimizer, make_message<wire::ResumeRequest>([&](wire::ResumeRequest::Builder b) {
          b.setEpoch(epoch);
          b.setVersion(minibatches);
          b.setExamples(10 * minibatches);
          b.setMinibatches(minibatches);
          auto list = b.initApplied(static_cast<unsigned>(applied.size()));
          for (unsigned i = 0; i < applied.size(); ++i) list.set(i, applied[i]);
        }));
  }
  // As a killed process leaves it: whatever it held is gone, its files are not.
  void end() {
    if (!owner_.optimizer) return;
    end_owner(owner_);
    self_->wait_for(owner_.optimizer, owner_.shard);
    owner_ = {};
  }
  void start_again(bool sync) {
    end();
    start(sync, true);
  }

  void create() {
    const Keys keys(std::vector<int64_t>{1, 2});
    const std::vector<TableSlices> slices{{0, keys, 0, {}}, {1, keys, 0, {}}};
    ask(self_.ptr(), owner_.shard, make_pull(origin(0), wire::ReadMode::LATEST, true, slices));
  }
  std::vector<float> rows() {
    const Keys keys(std::vector<int64_t>{1, 2});
    const std::vector<TableSlices> slices{{0, keys, 0, {}}, {1, keys, 0, {}}};
    const auto reply =
        ask(self_.ptr(), owner_.shard, make_pull(origin(0), wire::ReadMode::LATEST, false, slices));
    std::vector<float> all;
    for (size_t t = 0; t < 2; ++t)
      for (const float v : read_rows(reply.get(), t, {static_cast<TableId>(t), 1, 2})) all.push_back(v);
    return all;
  }
  Outcomes push(const Origin& from, const std::vector<float>& grads) {
    const Keys keys(std::vector<int64_t>{1, 2});
    const std::vector<TableSlices> slices{{0, keys, 1, grads}, {1, keys, 1, grads}};
    return ask(self_.ptr(), owner_.optimizer, make_push(from, slices)).get().getOutcome();
  }
  void commit(uint64_t version, const std::vector<uint64_t>& minibatches) {
    ask(self_.ptr(), owner_.optimizer, make_message<wire::CommitRequest>([&](wire::CommitRequest::Builder b) {
          b.setVersion(version);
          auto list = b.initMinibatches(static_cast<unsigned>(minibatches.size()));
          for (unsigned i = 0; i < minibatches.size(); ++i) {
            list[i].setMinibatch(minibatches[i]);
            list[i].setWeight(1);
          }
        }));
  }
  Message<wire::StatsReply> stats() {
    return ask(self_.ptr(), owner_.optimizer,
               make_message<wire::StatsRequest>([](wire::StatsRequest::Builder b) { b.setEpoch(1); }));
  }

  const ServerProcess server_ = GetParam() == "redis" ? ServerProcess::redis() : ServerProcess::memcached();
  TempDir dir_;
  System system_;
  caf::scoped_actor self_{system_};
  OwnerHandles owner_;
};
INSTANTIATE_TEST_SUITE_P(All, RecoveredOwner, testing::Values("memcached", "redis"),
                         [](const auto& param) { return param.param; });

// Which of a worker's steps are in the rows is not in the journal.
TEST_P(RecoveredOwner, DoesNotKnowWhoseStepsItHasUntilTheirNextPush) {
  start(false);
  create();
  const auto step = [](uint64_t minibatch, uint64_t number) {
    Origin o = origin(minibatch);
    o.step = number;
    return o;
  };
  const auto own_step = [&] {
    const Keys keys(std::vector<int64_t>{1});
    const std::vector<TableSlices> slices{{0, keys, 0, {}}};
    return ask(self_.ptr(), owner_.shard, make_pull(origin(0), wire::ReadMode::LATEST, false, slices))
        .get()
        .getOwnStep();
  };
  EXPECT_EQ(own_step(), 0);
  push(step(0, 17), {1, -2});
  EXPECT_EQ(own_step(), 17);
  start_again(false);
  EXPECT_EQ(own_step(), UINT64_MAX);
  push(step(1, 18), {1, -2});
  EXPECT_EQ(own_step(), 18);
}

TEST_P(RecoveredOwner, OfAnAsyncJobKnowsWhatWasAppliedAndGoesOn) {
  const auto work = [&](bool killed) {
    start(false);
    create();
    for (uint64_t m = 0; m < 3; ++m) {
      push(origin(m), {1, -2});
      if (killed) start_again(false);
    }
    EXPECT_EQ(stats().get().getVersion(), 3);
    EXPECT_EQ(stats().get().getMinibatches(), 3);
    EXPECT_EQ(stats().get().getExamples(), 30);
    EXPECT_EQ(stats().get().getRows(), 4);
    EXPECT_EQ(push(origin(1), {1, -2}), Outcomes::DUPLICATE);
    EXPECT_EQ(push(origin(7, 3), {3, 4}), Outcomes::APPLIED);
    return rows();
  };
  const auto disturbed = work(true);
  end();
  std::filesystem::remove_all(dir_.path());
  // Another run of the job, to see what its rows would have been.
  const ServerProcess other = GetParam() == "redis" ? ServerProcess::redis() : ServerProcess::memcached();
  OwnerConfig c = config(false);
  c.servers = {other.address()};
  owner_ = spawn_owner(system_, c);
  resume(1, 0, {});
  create();
  for (uint64_t m = 0; m < 3; ++m) push(origin(m), {1, -2});
  push(origin(7, 3), {3, 4});
  EXPECT_EQ(rows(), disturbed);
}

TEST_P(RecoveredOwner, OfASyncJobHasWhatWasStagedAndCommitsIt) {
  start(true);
  create();
  EXPECT_EQ(push(origin(0), {1, 2}), Outcomes::STAGED);
  EXPECT_EQ(push(origin(1), {10, 20}), Outcomes::STAGED);
  EXPECT_EQ(push(origin(1, 0, 1, 2), {100, 200}), Outcomes::DUPLICATE) << "a later attempt";
  start_again(true);
  EXPECT_EQ(stats().get().getVersion(), 0);
  commit(1, {0, 1});
  EXPECT_EQ(rows()[2], -11) << "sgd, rate 1";
  EXPECT_EQ(push(origin(2, 1), {1, 1}), Outcomes::STAGED);
  start_again(true);
  EXPECT_EQ(stats().get().getVersion(), 1);
  EXPECT_EQ(stats().get().getExamples(), 20);
  EXPECT_EQ(push(origin(0, 1), {1, 1}), Outcomes::DUPLICATE);
  commit(1, {0, 1});  // asked for again, though already done
  EXPECT_EQ(rows()[2], -11);
  commit(2, {2});
  EXPECT_EQ(rows()[2], -12);
}

TEST_P(RecoveredOwner, StandsWhereAResumedJobDoes) {
  start(false);
  resume(2, 50, {4});
  start_again(false);
  EXPECT_EQ(stats().get().getVersion(), 50);
  EXPECT_EQ(stats().get().getExamples(), 500);
  EXPECT_EQ(stats().get().getMinibatches(), 50);
  create();
  EXPECT_EQ(push(origin(4, 50, 2), {1, 1}), Outcomes::DUPLICATE);
  EXPECT_EQ(push(origin(9, 50, 1), {1, 1}), Outcomes::DUPLICATE) << "of an epoch that is over";
  EXPECT_EQ(push(origin(5, 50, 2), {1, 1}), Outcomes::APPLIED);
}

TEST_P(RecoveredOwner, WithoutTheJournalIsRefused) {
  start(false);
  end();
  std::filesystem::remove_all(dir_.path());
  expect_error(ErrorCode::kInvalid, {"shard 0", dir_.path().string(), "--resume"},
               [&] { start(false, true); });
}

// An apply changes all its tables or none: here the second has no row of the key.
TEST_P(RecoveredOwner, AnApplyThatFailsAtALaterTableChangesNothing) {
  start(false);
  const Keys both(std::vector<int64_t>{1, 2}), one(std::vector<int64_t>{1});
  const std::vector<TableSlices> created{{0, both, 0, {}}, {1, one, 0, {}}};
  ask(self_.ptr(), owner_.shard, make_pull(origin(0), wire::ReadMode::LATEST, true, created));
  expect_error(ErrorCode::kMissingKey, {"'b'", "2"}, [&] { push(origin(0), {1, 1}); });
  const std::vector<TableSlices> read{{0, both, 0, {}}};
  const auto reply =
      ask(self_.ptr(), owner_.shard, make_pull(origin(0), wire::ReadMode::LATEST, false, read));
  for (const float v : read_rows(reply.get(), 0, {0, 1, 2})) EXPECT_EQ(v, 0);
}

TEST_P(RecoveredOwner, RefusesWhatWasRoutedByAnOlderMap) {
  start(false);
  create();
  ask(self_.ptr(), owner_.optimizer,
      make_message<wire::MapRequest>([](wire::MapRequest::Builder b) { b.setMapVersion(2); }));
  expect_error(ErrorCode::kStaleMap, {}, [&] { push(origin(0), {1, 1}); });
  expect_error(ErrorCode::kStaleMap, {}, [&] { rows(); });
  Origin now = origin(0);
  now.map_version = 2;
  EXPECT_EQ(push(now, {1, 1}), Outcomes::APPLIED);
}

}  // namespace
}  // namespace embers
