// Keys, partition, specs, suggestions, errors.
#include <gtest/gtest.h>

#include <cerrno>

#include "base/suggest.h"
#include "schema/partition.h"
#include "schema/table_spec.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using testing_support::expect_error;

TEST(Keys, AreBytesInFull) {
  Keys keys(std::vector<std::string>{"", std::string("a\0b", 3), "tab\t\\"});
  EXPECT_EQ(keys.size(), 3);
  EXPECT_EQ(keys.view().bytes_at(0), "");
  EXPECT_EQ(keys.view().bytes_at(1), std::string_view("a\0b", 3));
  EXPECT_EQ(to_string(keys, 1), "a\\x00b");
  EXPECT_EQ(to_string(keys, 2), "tab\\x09\\x5c");
  EXPECT_EQ(Keys(keys.view()), keys);
  Keys copy(KeyKind::kBytes);
  copy.push_back_from(keys, 1);
  EXPECT_EQ(copy, Keys(std::vector<std::string>{std::string("a\0b", 3)}));
  keys.clear();
  EXPECT_TRUE(keys.empty());
}

TEST(Keys, AreAnyInt64) {
  const Keys keys(std::vector<int64_t>{INT64_MIN, 0, INT64_MAX});
  EXPECT_EQ(to_string(keys, 0), "-9223372036854775808");
  EXPECT_EQ(keys.kind(), KeyKind::kInt64);
}

// Checkpoints, initial values and buckets depend on them.
TEST(Hash, NeverChanges) {
  EXPECT_EQ(hash_key(int64_t{0}), 14374147212387527897u);
  EXPECT_EQ(hash_key(int64_t{-1}), 5841669975847748627u);
  EXPECT_EQ(hash_key(std::string_view("")), 3244421341483603138u);
  EXPECT_EQ(hash_key(std::string_view("Bachelors")), 16033951318856544225u);
}

TEST(Partition, IsEvenWhateverTheNumberOfShards) {
  for (const uint32_t shards : {1u, 2u, 3u, 7u, 64u}) {
    const OwnerMap map = even_owner_map(shards, 64);
    std::vector<uint32_t> buckets(shards);
    for (const uint16_t shard : map.owner_of_bucket) ++buckets.at(shard);
    const auto [least, most] = std::minmax_element(buckets.begin(), buckets.end());
    EXPECT_LE(*most - *least, 1);
  }
}

TEST(Partition, SpreadsKeysOverBucketsAsIfAtRandom) {
  std::vector<int> keys(16);
  for (int64_t key = 0; key < 16000; ++key) ++keys.at(bucket_of(hash_key(key), 16));
  for (const int n : keys) EXPECT_NEAR(n, 1000, 150);
}

TEST(Partition, CoversTheWholeRangeOfHashes) {
  EXPECT_EQ(bucket_of(0, 4096), 0);
  EXPECT_EQ(bucket_of(UINT64_MAX, 4096), 4095);
}

TEST(Partition, RefusesMoreShardsThanBucketsAndNone) {
  expect_error(ErrorCode::kInvalid, {"65 shards", "from 1 to 64"}, [] { even_owner_map(65, 64); });
  expect_error(ErrorCode::kInvalid, {"0 shards"}, [] { even_owner_map(0); });
}

TEST(Columns, OfAllOwnersCoverTheRowOnceInOrder) {
  for (const uint32_t dim : {1u, 2u, 3u, 4u, 7u, 10u, 16u, 65536u})
    for (const uint32_t owners : {1u, 2u, 3u, 4u, 5u, 65535u}) {
      const uint32_t each = (dim + owners - 1) / owners;
      uint32_t next = 0, with = 0;
      for (uint32_t owner = 0; owner < owners; ++owner) {
        const ColumnRange range = columns_of(dim, owner, owners);
        ASSERT_EQ(range.begin, next) << dim << " columns, owner " << owner << " of " << owners;
        ASSERT_LE(range.size(), each);
        if (!range.empty()) ASSERT_EQ(++with, owner + 1);
        next = range.end;
      }
      EXPECT_EQ(next, dim);
      EXPECT_EQ(owners_with_columns(dim, owners), with);
    }
  EXPECT_EQ(columns_of(10, 3, 4), (ColumnRange{9, 10}));
  EXPECT_TRUE(columns_of(1, 1, 5).empty());
}

TEST(Columns, OfATableThatIsSplitAreATableOfTheirOwn) {
  TableSpec table;
  table.name = "wide";
  table.dim = 7;
  EXPECT_EQ(part_of(table, 1, 3), table) << "whole rows";
  table.partition = Partition::kEncoding;
  EXPECT_EQ(part_of(table, 0, 1), table) << "one owner has all columns";
  const TableSpec last = part_of(table, 2, 3);
  EXPECT_EQ(last.dim, 1u);
  EXPECT_EQ(last.first_column, 6u);
  EXPECT_EQ(last.row_dim, 7u);
  EXPECT_EQ(last.name, "wide");
  const TableSpec padding = part_of(table, 6, 100);
  EXPECT_EQ(padding.dim, 1u);
  EXPECT_EQ(padding.first_column, 6u);
  EXPECT_EQ(part_of(table, 50, 100).first_column, 7u) << "after the last one";
  EXPECT_EQ(even_owner_map(5, 64).owners(), 5u);
}

TEST(Suggest, NamesTheNearestOrAllThatAreKnown) {
  const std::vector<std::string> known{"sgd", "adagrad", "adam"};
  EXPECT_EQ(suggestion("adagard", known), "; did you mean 'adagrad'?");
  EXPECT_EQ(suggestion("momentum", known), "; known: sgd, adagrad, adam");
  EXPECT_EQ(nearest("adma", known), "adam");
  EXPECT_EQ(suggestion("x", {}), "");
}

ModelSpec model() {
  TableSpec education;
  education.name = "education";
  education.dim = 8;
  education.key_kind = KeyKind::kBytes;
  return {{education}, {{"linear.weight", {3, 700}, false}, {"norm.mean", {4}, true}, {"scalar", {}, false}}};
}

TEST(Signature, IsTheSameForTheSameModelAndElseSaysWhatDiffers) {
  const ModelSpec mine = model();
  ModelSpec theirs = model();
  EXPECT_EQ(signature_difference(signature(mine), signature(theirs)), "");
  theirs.tables[0].dim = 16;
  EXPECT_EQ(signature_difference(signature(mine), signature(theirs)),
            "table 'education': dim 8, keys bytes at the master, table 'education': dim 16, keys bytes at "
            "the worker");
  theirs = model();
  theirs.dense.pop_back();
  EXPECT_EQ(signature_difference(signature(mine), signature(theirs)),
            "parameter 'scalar': shape [] at the master, nothing more at the worker");
}

TEST(DenseChunks, CoverEveryElementOnce) {
  const auto chunks = dense_chunks(model(), false);
  ASSERT_EQ(chunks.size(), 4);
  EXPECT_EQ(chunks[2].key, "linear.weight#2");
  EXPECT_EQ(chunks[2].begin, 2 * kDenseChunk);
  EXPECT_EQ(chunks[2].size, 2100 - 2 * kDenseChunk);
  EXPECT_EQ(chunks[3].key, "scalar#0");
  EXPECT_EQ(chunks[3].size, 1);
  EXPECT_EQ(dense_chunks(model(), true).size(), 1);
}

TEST(ModelSpec, FindsTablesByName) {
  ModelSpec spec = model();
  EXPECT_EQ(spec.table_id("education"), 0);
  EXPECT_TRUE(spec.has_embeddings());
  expect_error(ErrorCode::kUnknownTable, {"'age'"}, [&] { spec.table_id("age"); });
  spec.tables[0].name = kDenseTable;
  EXPECT_FALSE(spec.has_embeddings());
}

TEST(Errors, AreGroupedByWhatTheCallerShouldDo) {
  EXPECT_EQ(remedy(ErrorCode::kTimeout), Remedy::kRetry);
  EXPECT_EQ(remedy(ErrorCode::kStaleMap), Remedy::kRefresh);
  EXPECT_EQ(remedy(ErrorCode::kUnreachable), Remedy::kFix);
  EXPECT_EQ(exit_status(ErrorCode::kMismatch), 2);
  EXPECT_EQ(exit_status(ErrorCode::kLost), 1);
}

TEST(Errors, OfAFullDiskAreNoBadInputAndThoseOfAPathAre) {
  for (const int full : {ENOSPC, EDQUOT, EIO}) {
    EXPECT_EQ(file_error_code(full), ErrorCode::kDisk);
    EXPECT_EQ(exit_status(file_error_code(full)), 1);
  }
  for (const int wrong : {ENOENT, EACCES, ENOTDIR}) EXPECT_EQ(exit_status(file_error_code(wrong)), 2);
}

TEST(Errors, OfAnUnknownNumberAreInternal) {
  int known = 0;
  for (int number = 0; number < 256; ++number) {
    const ErrorCode code = error_code(static_cast<uint8_t>(number));
    known += static_cast<int>(code) == number;
    EXPECT_TRUE(static_cast<int>(code) == number || code == ErrorCode::kInternal);
  }
  EXPECT_EQ(known, 19);
}

}  // namespace
}  // namespace embers
