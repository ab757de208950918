// The master's books: leases, versions, members, metrics.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "master/evaluation.h"
#include "master/report.h"
#include "master/state/leases/clocks.h"
#include "master/state/leases/leases.h"
#include "master/state/leases/versions.h"
#include "master/state/membership.h"

namespace embers {
namespace {

TEST(LeaseBook, GrantsInOrderUpToItsLimit) {
  LeaseBook book(10);
  book.set_limit(3);
  const auto lease = book.grant(1, 8);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->parts.size(), 3);
  EXPECT_EQ(lease->parts[2].minibatch, 2);
  EXPECT_FALSE(book.grant(2, 8));
  book.set_limit(10);
  EXPECT_EQ(book.grant(2, 8)->parts[0].minibatch, 3);
}

TEST(LeaseBook, GoesOnFromACursor) {
  LeaseBook book(10, 8, {5, 2, 9});
  std::vector<uint64_t> granted;
  while (const auto lease = book.grant(1, 1)) granted.push_back(lease->parts[0].minibatch);
  EXPECT_EQ(granted, (std::vector<uint64_t>{2, 5, 8, 9}));
}

TEST(LeaseBook, DropsNothingAndHasNeverTwoHolders) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    const uint64_t total = random() % 60;
    LeaseBook book(total);
    struct Held {
      uint64_t worker, lease;
      uint32_t attempt;
    };
    std::map<uint64_t, Held> held;
    std::set<uint64_t> done;
    std::set<std::pair<uint64_t, uint32_t>> attempts;
    for (int step = 0; step < 2000 && !book.finished(); ++step) {
      const uint64_t worker = random() % 4;
      const uint64_t what = random() % 10;
      if (what < 4) {
        if (const auto lease = book.grant(worker, 1 + random() % 5))
          for (const auto& part : lease->parts) {
            ASSERT_FALSE(held.contains(part.minibatch)) << "two holders";
            ASSERT_FALSE(done.contains(part.minibatch));
            ASSERT_TRUE(attempts.insert({part.minibatch, part.attempt}).second);
            held[part.minibatch] = {worker, lease->id, part.attempt};
          }
      } else if (what < 8 && !held.empty()) {
        const auto it = std::next(held.begin(), random() % held.size());
        const auto [minibatch, h] = *it;
        ASSERT_FALSE(book.complete(h.lease + 1, minibatch, h.attempt)) << "another lease";
        ASSERT_FALSE(book.complete(h.lease, minibatch, h.attempt + 1)) << "another attempt";
        if (what == 7) {
          ASSERT_TRUE(book.give_back(h.lease, minibatch, h.attempt));
        } else {
          ASSERT_TRUE(book.complete(h.lease, minibatch, h.attempt));
          done.insert(minibatch);
        }
        ASSERT_FALSE(book.complete(h.lease, minibatch, h.attempt)) << "twice";
        held.erase(it);
      } else if (what == 8) {
        const size_t released = std::erase_if(held, [&](const auto& e) { return e.second.worker == worker; });
        ASSERT_EQ(book.revoke(worker), released);
      }
      ASSERT_EQ(book.done(), done.size());
      ASSERT_EQ(book.idle(), held.empty());
    }
    EXPECT_TRUE(book.finished());
    EXPECT_EQ(done.size(), total);
  }
}

TEST(LeaseBook, OfALateWorkerAndTheNextOneTheFirstCompletes) {
  for (const bool late_one_first : {true, false}) {
    LeaseBook book(1);
    const auto first = book.grant(1, 1);
    EXPECT_EQ(book.open(1), 1);
    EXPECT_EQ(book.open(1), 0);
    const auto second = book.grant(2, 1);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->parts[0].attempt, 2);
    EXPECT_FALSE(book.complete(first->id, 0, 2)) << "not its attempt";
    EXPECT_EQ(book.unfinished_by(1), 1);
    const auto complete = [&](const auto& lease) {
      return book.complete(lease->id, 0, lease->parts[0].attempt);
    };
    EXPECT_TRUE(complete(late_one_first ? first : second));
    EXPECT_TRUE(book.finished());
    EXPECT_EQ(book.unfinished_by(late_one_first ? 2 : 1), 1);
    EXPECT_FALSE(complete(late_one_first ? second : first));
    EXPECT_EQ(book.late(), 0);
    EXPECT_EQ(book.done(), 1);
    EXPECT_FALSE(book.grant(1, 1));
  }
}

TEST(LeaseBook, ALateWorkerCompletesWhatNobodyElseWasGranted) {
  LeaseBook book(2);
  const auto lease = book.grant(1, 2);
  book.open(1);
  EXPECT_TRUE(book.complete(lease->id, 0, 1));
  EXPECT_EQ(book.again(), std::vector<uint64_t>{1});
  book.reclaim(1);
  EXPECT_FALSE(book.grant(2, 2)) << "it goes on with the other one";
  EXPECT_TRUE(book.complete(lease->id, 1, 1));
  EXPECT_TRUE(book.finished());
}

TEST(LeaseBook, ALateWorkerDoesNotGetBackWhatAnotherOneHasBegun) {
  LeaseBook book(2);
  const auto lease = book.grant(1, 2);
  book.open(1);
  const auto other = book.grant(2, 1);
  book.reclaim(1);
  EXPECT_EQ(book.held(), 2);
  EXPECT_TRUE(book.give_back(other->id, 0, 2));
  book.reclaim(1);
  EXPECT_EQ(book.again(), std::vector<uint64_t>{0}) << "the attempt of the other one counts";
  EXPECT_FALSE(book.give_back(lease->id, 0, 1)) << "it waits already";
  EXPECT_FALSE(book.complete(lease->id, 0, 1)) << "it was given back";
  EXPECT_EQ(book.grant(2, 1)->parts[0].attempt, 3);
}

TEST(LeaseBook, ALateWorkerThatIsRevokedCompletesNothing) {
  LeaseBook book(2);
  const auto lease = book.grant(1, 2);
  book.open(1);
  book.grant(2, 1);
  EXPECT_EQ(book.revoke(1), 0) << "it held nothing alone";
  EXPECT_FALSE(book.complete(lease->id, 0, 1));
  EXPECT_FALSE(book.complete(lease->id, 1, 1));
  EXPECT_EQ(book.revoke(2), 1);
  EXPECT_EQ(book.again(), (std::vector<uint64_t>{0, 1}));
}

TEST(VersionWindow, IsReadyWhenAllItsMinibatchesAre) {
  VersionWindow window(7, 0, 5, 2, job::Reduction::kMean);
  EXPECT_EQ(window.limit(), 2);
  window.complete(1, 3, 30);
  EXPECT_FALSE(window.ready());
  window.complete(0, 1, 10);
  ASSERT_TRUE(window.ready());
  const Commit commit = window.commit();
  EXPECT_EQ(commit.version, 8);
  ASSERT_EQ(commit.parts.size(), 2);
  EXPECT_EQ(commit.parts[0].minibatch, 0);
  EXPECT_EQ(commit.parts[0].weight, 0.25);
  EXPECT_EQ(commit.parts[1].attempt, 3);
  EXPECT_EQ(commit.parts[1].weight, 0.75);
  const Commit clipped = window.commit({{{2, "fc.weight"}, 6.25}});
  ASSERT_EQ(clipped.norms.size(), 1);
  EXPECT_EQ(clipped.norms.begin()->second, 6.25);
  window.advance();
  EXPECT_EQ(window.version(), 8);
  EXPECT_EQ(window.limit(), 4);
  EXPECT_FALSE(window.ready());
  window.advance();
  EXPECT_EQ(window.limit(), 5) << "the last version is short";
  window.advance();
  EXPECT_FALSE(window.ready()) << "there is none after it";
}

TEST(VersionWindow, WeighsNothingForASumAndSurvivesEmptyMinibatches) {
  VersionWindow sum(0, 0, 1, 1, job::Reduction::kSum), mean(0, 0, 1, 1, job::Reduction::kMean);
  sum.complete(0, 1, 30);
  mean.complete(0, 1, 0);
  EXPECT_EQ(sum.commit().parts[0].weight, 1);
  EXPECT_EQ(mean.commit().parts[0].weight, 0);
}

TEST(Clocks, BoundOfZeroIsLockStep) {
  Clocks clocks(0);
  clocks.add(1);
  clocks.add(2);
  EXPECT_EQ(clocks.room(1, 0), 1);
  EXPECT_EQ(clocks.room(1, 1), 0) << "no second minibatch before the first is finished";
  clocks.advance(1);
  EXPECT_EQ(clocks.room(1, 0), 0) << "the other one has not finished its first";
  EXPECT_EQ(clocks.room(2, 0), 1);
  clocks.advance(2);
  EXPECT_EQ(clocks.room(1, 0), 1);
}

TEST(Clocks, WhoJoinsStartsAtTheSlowestAndWhoGoesHoldsNobodyUp) {
  Clocks clocks(3);
  clocks.add(1);
  clocks.add(2);
  for (int i = 0; i < 3; ++i) clocks.advance(1);
  clocks.advance(2);
  EXPECT_EQ(clocks.room(1, 0), 2);
  clocks.add(3);
  EXPECT_EQ(clocks.room(3, 0), 4) << "as the slowest, not from 0";
  clocks.remove(2);
  clocks.advance(3);
  EXPECT_EQ(clocks.room(1, 0), 3);
  clocks.remove(3);
  EXPECT_EQ(clocks.room(1, 0), 4) << "alone";
  clocks.add(1);
  EXPECT_EQ(clocks.room(1, 0), 4) << "once is enough";
}

// Ho et al. (2013): the fastest and the slowest worker are never more than the bound apart, and the slowest
// one can always go on.
TEST(Clocks, NeverLetAnybodyGetFurtherAheadThanTheBoundNorStallTheSlowest) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    const uint64_t bound = random() % 4;
    Clocks clocks(bound);
    struct Worker {
      uint64_t finished, unfinished;
    };
    std::map<uint64_t, Worker> workers;
    uint64_t last = 0;
    for (int step = 0; step < 2000; ++step) {
      uint64_t slowest = UINT64_MAX;
      for (const auto& [id, w] : workers) slowest = std::min(slowest, w.finished);
      if (workers.empty() || (random() % 50 == 0 && workers.size() < 5)) {
        clocks.add(++last);
        workers[last] = {workers.empty() ? 0 : slowest, 0};
        continue;
      }
      auto& [id, w] = *std::next(workers.begin(), random() % workers.size());
      if (random() % 100 == 0) {
        clocks.remove(id);
        workers.erase(id);
        continue;
      }
      const uint64_t room = clocks.room(id, w.unfinished);
      if (w.finished == slowest && w.unfinished == 0) {
        ASSERT_GE(room, 1);
      }
      if (w.unfinished > 0 && random() % 2 == 0) {
        clocks.advance(id);
        ++w.finished;
        --w.unfinished;
      } else {
        w.unfinished += room;
        if (room > 0) {
          ASSERT_LE(w.finished + w.unfinished - 1, slowest + bound);
        }
      }
    }
  }
}

TEST(Membership, NumbersWorkersAndNeverUsesAnIncarnationTwice) {
  Membership members;
  Member owner;
  owner.owner = true;
  const uint64_t first = members.add({}, {}).incarnation;
  members.add(owner, {});
  members.remove(first);
  const Member& second = members.add({}, {});
  EXPECT_GT(second.incarnation, first + 1);
  EXPECT_EQ(second.number, 1);
  EXPECT_EQ(members.workers(), 1);
  EXPECT_EQ(members.owners(), 1);
  EXPECT_EQ(members.workers_joined(), 2);
  EXPECT_EQ(members.find(first), nullptr);
}

TEST(Membership, FindsWhoIsSilent) {
  Membership members;
  const Membership::Time now(std::chrono::hours(1));
  const auto incarnation = members.add({}, now - std::chrono::seconds(5)).incarnation;
  members.add({}, now);
  EXPECT_EQ(members.silent_since(now - std::chrono::seconds(10)), nullptr);
  ASSERT_NE(members.silent_since(now - std::chrono::seconds(2)), nullptr);
  EXPECT_EQ(members.silent_since(now - std::chrono::seconds(2))->incarnation, incarnation);
  members.grant_time(now);
  EXPECT_EQ(members.silent_since(now - std::chrono::seconds(2)), nullptr);
}

TEST(Membership, FindsAllMembersOfOneConnection) {
  Membership members;
  Member member;
  member.link = 3;
  const auto first = members.add(member, {}).incarnation;
  members.add({}, {});
  const auto second = members.add(member, {}).incarnation;
  EXPECT_EQ(members.behind(3), (std::vector<uint64_t>{first, second}));
  EXPECT_TRUE(members.behind(4).empty());
}

TEST(EvaluationWindow, IsBoundedByRecordsAndByMinibatchesButLeavesTwoForEachWorker) {
  EXPECT_EQ(evaluation_window(1024, 2), 4096);
  EXPECT_EQ(evaluation_window(1, 2), 65536);
  EXPECT_EQ(evaluation_window(100'000'000, 3), 6);
  EXPECT_EQ(evaluation_window(0, 0), 65536);
}

TEST(RecentWindow, ForgetsWhatIsLongPast) {
  RecentWindow window;
  EXPECT_TRUE(std::isnan(window.loss()));
  window.add({{}, {}, {}, 1e6, 100});
  for (int i = 0; i < 300; ++i) window.add({{}, {}, {}, 200, 100});
  EXPECT_EQ(window.loss(), 2);
}

TEST(RecentWindow, LooksAtTheFirstExamplesOfAHugeMinibatch) {
  RecentWindow window;
  std::vector<float> scores(100'000, 0.5f), labels(100'000, 0.0f);
  labels[0] = 1;
  labels[60'000] = 1;
  scores[0] = 1;
  scores[60'000] = 0;  // would halve the AUC
  window.add({scores, labels, {}, 1, 100'000});
  EXPECT_EQ(window.auc(), 1);
}

TEST(Report, WritesNumbersThatDoNotExistAsNull) {
  Report report;
  report.total.auc = NAN;
  report.first_epoch = 3;
  report.epochs.resize(2);
  const auto json = to_json(report);
  EXPECT_TRUE(json["auc"].is_null());
  EXPECT_EQ(json["epochs"][1]["epoch"], 4);
  EXPECT_GT(json["peak_memory_bytes"], 0);
}

}  // namespace
}  // namespace embers
