// What partition = "auto" chooses, and the model of costs behind it.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "master/partitions.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

TableSpec table(uint32_t dim, int64_t rows) {
  TableSpec t;
  t.name = "actions";
  t.dim = dim;
  t.input_dim = rows;
  t.update_rule = {"adagrad", {}, {}};
  t.partition = Partition::kAuto;
  return t;
}

const StepCosts kOwnCores = step_costs({.owners = 2, .cores = 64});

TEST(BusiestShare, IsAllOfOneKeyAndComesNearAnEvenShareWithMany) {
  for (const uint32_t owners : {1u, 2u, 3u, 8u}) {
    EXPECT_EQ(busiest_share(1, owners), 1);
    double before = 1;
    for (const double keys : {2.0, 8.0, 64.0, 4096.0}) {
      const double share = busiest_share(keys, owners);
      EXPECT_LE(share, before);
      EXPECT_GE(share, 1.0 / owners);
      before = share;
    }
    EXPECT_NEAR(busiest_share(1e6, owners), 1.0 / owners, 0.01);
  }
}

TEST(BusiestShare, IsThatOfHashesOnAverage) {
  constexpr int kSets = 4000, kKeys = 16;
  for (const uint32_t owners : {2u, 4u}) {
    double sum = 0;
    for (int64_t set = 0; set < kSets; ++set) {
      std::vector<int> counts(owners, 0);
      for (int64_t k = 0; k < kKeys; ++k) ++counts[hash_key(set * kKeys + k) % owners];
      sum += *std::max_element(counts.begin(), counts.end());
    }
    EXPECT_NEAR(busiest_share(kKeys, owners), sum / kSets / kKeys, 0.03) << owners;
  }
}

TEST(StepSeconds, GrowWithKeysAndColumns) {
  for (const Partition p : {Partition::kToken, Partition::kEncoding}) {
    EXPECT_LT(step_seconds(table(16, 0), p, 100, 2), step_seconds(table(16, 0), p, 200, 2));
    EXPECT_LT(step_seconds(table(16, 0), p, 100, 2), step_seconds(table(32, 0), p, 100, 2));
  }
}

TEST(StepSeconds, AreTheSameOnOneShard) {
  EXPECT_DOUBLE_EQ(step_seconds(table(16, 0), Partition::kToken, 100, 1),
                   step_seconds(table(16, 0), Partition::kEncoding, 100, 1));
}

TEST(ChoosePartition, WideRowsOfFewKeysAreSplitByColumns) {
  for (const uint32_t owners : {2u, 4u}) {
    const PartitionChoice choice = choose_partition(table(4096, 512), owners, 0, kOwnCores);
    EXPECT_EQ(choice.partition, Partition::kEncoding) << choice.why;
    EXPECT_NE(choice.why.find("4096 columns"), std::string::npos) << choice.why;
  }
}

TEST(ChoosePartition, AnEvenLoadIsWorthLittleWhereShardsShareCores) {
  EXPECT_EQ(choose_partition(table(4096, 512), 2, 0).partition, Partition::kToken);
  EXPECT_LT(step_costs({.owners = 2, .cores = 3}).shard_byte,
            step_costs({.owners = 2, .cores = 4}).shard_byte);
}

TEST(ChoosePartition, AnEvenLoadIsWorthMoreWhereWorkersMeetAtTheCardsOfShards) {
  const auto choose = [](uint32_t workers, double gbits, uint32_t dim) {
    const JobScale scale{.owners = 2, .workers = workers, .network_gbits = gbits, .cores = 2};
    return choose_partition(table(dim, 512), 2, 0, step_costs(scale)).partition;
  };
  EXPECT_EQ(choose(4, 1, 4096), Partition::kEncoding);
  EXPECT_EQ(choose(1, 1, 4096), Partition::kToken);  // its own card takes as much as all shards' have
  EXPECT_EQ(choose(4, 0, 4096), Partition::kToken);
  for (const uint32_t workers : {1u, 4u, 8u}) EXPECT_EQ(choose(workers, 1, 16), Partition::kToken) << workers;
}

TEST(ChoosePartition, NarrowRowsAreNot) {
  for (const int64_t rows : {int64_t{0}, int64_t{2}, int64_t{512}, int64_t{1'000'000}})
    for (const uint32_t owners : {2u, 4u, 16u})
      EXPECT_EQ(choose_partition(table(16, rows), owners, 2048, kOwnCores).partition, Partition::kToken);
}

TEST(ChoosePartition, TablesOfAnyKeyAreSplitByRowsUnlessTheyAreVeryWide) {
  EXPECT_EQ(choose_partition(table(256, 0), 2, 64).partition, Partition::kToken);
  EXPECT_EQ(choose_partition(table(4096, 0), 2, 64).partition, Partition::kToken);
  EXPECT_NE(choose_partition(table(4096, 0), 2, 64).why.find("any number of rows"), std::string::npos);
  EXPECT_EQ(choose_partition(table(65536, 0), 2, 64, kOwnCores).partition, Partition::kEncoding);
}

TEST(SettlePartitions, SaysWhatItChoseAndWhy) {
  ModelSpec model;
  model.tables = {table(4096, 512), table(16, 0), table(4096, 512), dense_table({"sgd", {}, {}})};
  model.tables[1].name = "user";
  model.tables[2].name = "grouped";
  model.tables[2].update_rule.name = "group_ftrl";
  const std::vector<std::string> said =
      settle_partitions(model, {.owners = 2, .batch_size = 64, .cores = 64});
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[0].rfind("table 'actions': encoding, because ", 0), 0u) << said[0];
  EXPECT_EQ(said[1].rfind("table 'user': token, because ", 0), 0u) << said[1];
  EXPECT_EQ(said[2], "table 'grouped': token, because optimizer 'group_ftrl' needs whole rows");
  EXPECT_EQ(model.tables[0].partition, Partition::kEncoding);
  EXPECT_EQ(model.tables[1].partition, Partition::kToken);
  EXPECT_EQ(model.tables[2].partition, Partition::kToken);
}

TEST(SettlePartitions, OneShardHasWholeRows) {
  ModelSpec model;
  model.tables = {table(4096, 512), table(4096, 512)};
  model.tables[1].partition = Partition::kEncoding;
  EXPECT_EQ(settle_partitions(model, {.owners = 1}).size(), 1u);
  for (const TableSpec& t : model.tables) EXPECT_EQ(t.partition, Partition::kToken);
}

TEST(SettlePartitions, RefusesColumnsOfWhatNeedsWholeRows) {
  ModelSpec model;
  model.tables = {table(4096, 512)};
  model.tables[0].partition = Partition::kEncoding;
  model.tables[0].update_rule.name = "group_ftrl";
  testing_support::expect_error(ErrorCode::kInvalid, {"'actions'", "group_ftrl", "token"},
                                [&] { settle_partitions(model, {.owners = 2}); });
}

}  // namespace
}  // namespace embers
