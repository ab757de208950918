// What a plan leaves to be pulled when the worker's caches have some of its rows.
#include "client/pipeline/cached_pull.h"

#include <gtest/gtest.h>

#include "tests/support/actors.h"

namespace embers {
namespace {

using namespace testing_support;

class CachedPlan : public testing::Test {
 protected:
  static constexpr size_t kOwners = 3;

  CachedPlan() {
    owners_.handles.resize(kOwners);
    owners_.map = even_owner_map(kOwners, 64);
    owners_.tables = model_.tables;
    caches_ = std::make_unique<RowCaches>(owners_, 1000, 2);
  }

  struct KeyWork : Work {
    Keys ints, bytes;
  };
  using KeyWorkPtr = std::unique_ptr<KeyWork>;
  // Keys [begin, end) of both tables.
  static KeyWorkPtr work(int64_t begin, int64_t end) {
    Keys ints(KeyKind::kInt64), bytes(KeyKind::kBytes);
    for (int64_t i = begin; i < end; ++i) {
      ints.push_back(i * 1000003);
      bytes.push_back("key number " + std::to_string(i));
    }
    auto work = std::make_unique<KeyWork>();
    work->ints = ints;
    work->bytes = bytes;
    work->keys = {{0, work->ints}, {1, work->bytes}};
    return work;
  }
  static float value(TableId table, KeysView keys, size_t i, float version) {
    return static_cast<float>(hash_key(keys, i) % 1000) + 2000.0f * table + 10000.0f * version;
  }

  // What the owners would answer at this version; returns how many keys they were asked for.
  size_t pull(PullPlan& plan, uint64_t version) {
    size_t asked = 0;
    for (size_t owner = 0; owner < kOwners; ++owner) {
      std::vector<RowsShape> shapes;
      for (const RoutedTable& part : plan.routed[owner])
        shapes.push_back({part.table, owners_.tables[part.table].dim, part.keys.size()});
      const auto reply = make_pull_reply(version, shapes, [&](size_t t, std::span<float> rows) {
        for (size_t i = 0; i < rows.size(); ++i)
          rows[i] = value(shapes[t].table, plan.routed[owner][t].keys, i / shapes[t].dim,
                          static_cast<float>(version));
        if (shapes[t].table < 2) asked += shapes[t].keys;
      });
      take_rows(plan, owner, owners_, reply.get());
      caches_->keep(plan, owner, version);
    }
    return asked;
  }

  // Keys of `work` in [begin, end) have rows of this version in their places.
  void expect_rows(const Work& work, size_t begin, size_t end, float version) {
    for (size_t t = 0; t < 2; ++t) {
      const KeysView keys = work.keys[t].keys;
      const uint32_t dim = model_.tables[t].dim;
      for (size_t i = begin; i < end; ++i)
        for (uint32_t c = 0; c < dim; ++c)
          ASSERT_EQ(work.rows.bets[t].span()[i * dim + c], value(static_cast<TableId>(t), keys, i, version));
    }
  }

  PullPlan planned(const KeyWorkPtr& work, RowCaches* caches) const {
    PullPlan plan = plan_pull(*work, owners_, model_, keys_, caches);
    route_pull(plan, owners_);
    return plan;
  }

  ModelSpec model_{
      {table("a", 3), table("s", 2, KeyKind::kBytes), table(kDenseTable, kDenseChunk, KeyKind::kBytes)},
      {{"w", {3, 700}, false}}};
  DenseKeys keys_{model_};
  Owners owners_;
  std::unique_ptr<RowCaches> caches_;
};

TEST_F(CachedPlan, OnlyRowsThatTheCacheDoesNotHaveArePulled) {
  const KeyWorkPtr first = work(0, 50), second = work(30, 90);
  PullPlan plan = planned(first, caches_.get());
  EXPECT_EQ(pull(plan, 5), 100);
  EXPECT_EQ(first->cache_hits, 0);
  EXPECT_EQ(plan.oldest, (std::vector<uint64_t>(kOwners, UINT64_MAX)));
  expect_rows(*first, 0, 50, 5);

  PullPlan next = planned(second, caches_.get());
  EXPECT_EQ(second->cache_hits, 40);
  EXPECT_EQ(next.oldest, (std::vector<uint64_t>(kOwners, 5)));
  EXPECT_EQ(pull(next, 6), 80);
  expect_rows(*second, 0, 20, 5);
  expect_rows(*second, 20, 60, 6);
  EXPECT_EQ(second->rows.dense.size(), 3 * kDenseChunk);
}

TEST_F(CachedPlan, RowsAreUsedForNoMoreMinibatchesThanTheBound) {
  const KeyWorkPtr first = work(0, 10);
  PullPlan plan = planned(first, caches_.get());
  pull(plan, 1);
  for (const uint64_t hits : {20, 20, 0}) {
    const KeyWorkPtr again = work(0, 10);
    planned(again, caches_.get());
    EXPECT_EQ(again->cache_hits, hits);
  }
}

TEST_F(CachedPlan, WhatHasAllItsRowsAsksForTheDenseModelOnly) {
  const KeyWorkPtr first = work(0, 50), same = work(0, 50);
  PullPlan plan = planned(first, caches_.get());
  pull(plan, 3);
  PullPlan again = planned(same, caches_.get());
  for (const auto& tables : again.routed)
    for (const RoutedTable& part : tables) EXPECT_EQ(part.table, 2u);
  EXPECT_EQ(pull(again, 4), 0);
  expect_rows(*same, 0, 50, 3);
}

TEST_F(CachedPlan, WithoutCachesEverythingIsPulled) {
  const KeyWorkPtr first = work(0, 10), evaluated = work(0, 10);
  PullPlan plan = planned(first, caches_.get());
  pull(plan, 1);
  PullPlan fresh = planned(evaluated, nullptr);
  size_t keys = 0;
  for (const auto& tables : fresh.routed)
    for (const RoutedTable& part : tables) keys += part.table < 2 ? part.keys.size() : 0;
  EXPECT_EQ(keys, 20);
}

}  // namespace
}  // namespace embers
