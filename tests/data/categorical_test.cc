#include "data/categorical.h"

#include <gtest/gtest.h>

#include "tests/data/testutil.h"

namespace embers::data {
namespace {

using Texts = std::vector<std::string_view>;
using Ints = std::vector<int64_t>;

template <class T>
std::span<const T> span_of(const std::vector<T>& values) {
  return values;
}

template <class T>
Ints ids_of(const Categorical& column, const std::vector<T>& values) {
  Ints ids;
  append_ids(column, span_of(values), ids);
  return ids;
}

Categorical column_of(IdKind kind, int64_t num_buckets = 0) {
  Categorical column;
  column.kind = kind;
  column.num_buckets = num_buckets;
  return column;
}

// The example of tf.strings.to_hash_bucket_fast's documentation: ["Hello", "TensorFlow", "2.x"] in 3 buckets.
TEST(HashBucket, IsTensorFlowsToHashBucketFast) {
  const Categorical column = column_of(IdKind::kHashBucket, 3);
  EXPECT_EQ(ids_of(column, Texts{"Hello", "TensorFlow", "2.x"}), (Ints{0, 2, 2}));
  EXPECT_EQ(column.buckets(), 3);
}

TEST(HashBucket, ANumberIsHashedAsItsDecimalText) {
  const Categorical column = column_of(IdKind::kHashBucket, 1 << 30);
  const int64_t low = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(ids_of(column, Ints{101, -7, 0, low}),
            ids_of(column, Texts{"101", "-7", "0", "-9223372036854775808"}));
}

// TensorFlow's test_get_sparse_tensors_simple of crossed_column: the buckets of a two-dimensional number with
// boundaries (0, 1), in whose second dimension the numbers of the buckets go on, crossed with strings;
// hash_bucket_size 5, hash_key 5.
TEST(Cross, GivesTensorFlowsIds) {
  Categorical cross = column_of(IdKind::kCrossed, 5);
  cross.hash_key = 5;
  const Categorical raw, ids = column_of(IdKind::kIdentity, 6);
  const auto crossed = [&](const Ints& a, const Texts& b) {
    std::vector<std::vector<uint64_t>> terms(2);
    append_cross_terms(ids, span_of(a), terms[0]);
    append_cross_terms(raw, span_of(b), terms[1]);
    Ints out;
    append_crosses(cross, terms, out);
    return out;
  };
  EXPECT_EQ(crossed({0, 4}, {"cA"}), (Ints{1, 0}));
  EXPECT_EQ(crossed({1, 5}, {"cB", "cC"}), (Ints{1, 3, 4, 2}));
  EXPECT_EQ(crossed({1}, {}), Ints{});
}

TEST(Cross, DependsOnOrderAndHashKey) {
  Categorical cross = column_of(IdKind::kCrossed, 1 << 30);
  const auto crossed = [&](uint64_t a, uint64_t b) {
    Ints out;
    append_crosses(cross, std::vector<std::vector<uint64_t>>{{a}, {b}}, out);
    return out.at(0);
  };
  const int64_t id = crossed(1, 2);
  EXPECT_NE(id, crossed(2, 1));
  cross.hash_key = 1;
  EXPECT_NE(id, crossed(1, 2));
}

TEST(Cross, RefusesAProductBeyondItsLimit) {
  const std::vector<std::vector<uint64_t>> terms(3, std::vector<uint64_t>(200, 7));
  Ints out;
  EXPECT_THROW(append_crosses(column_of(IdKind::kCrossed, 5), terms, out), BadValue);
  EXPECT_EQ(out, Ints{});
}

TEST(Identity, TakesTheDefaultForValuesOutside) {
  Categorical column = column_of(IdKind::kIdentity, 3);
  EXPECT_EQ(ids_of(column, Ints{0, 2}), (Ints{0, 2}));
  EXPECT_THROW(ids_of(column, Ints{3}), BadValue);
  EXPECT_THROW(ids_of(column, Ints{-1}), BadValue);
  column.default_value = 1;
  EXPECT_EQ(ids_of(column, Ints{3, -1, 0}), (Ints{1, 1, 0}));
}

// Numbers are float32 where they reach a column, as they are in TensorFlow: 0.7 is in the upper bucket,
// though the nearest float is below the nearest double.
TEST(Bucketized, ComparesFloats) {
  const std::vector<double> boundaries{0.7};
  EXPECT_EQ(bucket_of(0.7, boundaries), 1);
  EXPECT_EQ(bucket_of(0.7f, boundaries), 1);
  EXPECT_EQ(bucket_of(0.69, boundaries), 0);
}

TEST(Bucketized, BucketsAreHalfOpen) {
  Categorical column = column_of(IdKind::kBucketized);
  column.boundaries = {0, 10, 100};  // tf.feature_column's example: (-inf, 0), [0, 10), [10, 100), [100, inf)
  EXPECT_EQ(ids_of(column, std::vector<double>{-5, 10000, 150, 10, 5, 100, 0, -0.0}),
            (Ints{0, 3, 3, 2, 1, 3, 1, 1}));
  EXPECT_EQ(column.buckets(), 4);
}

TEST(VocabularyColumn, UnknownValuesHaveNoIdADefaultOrABucket) {
  Categorical column = column_of(IdKind::kVocabulary);
  column.vocabulary = std::make_shared<const Vocabulary>(std::vector<std::string>{"R", "G", "7"});
  EXPECT_EQ(ids_of(column, Texts{"G", "X", "7", "", "R"}), (Ints{1, kNoId, 2, kNoId, 0}));
  EXPECT_EQ(ids_of(column, Ints{7, 8}), (Ints{2, kNoId}));
  EXPECT_EQ(column.buckets(), 3);
  column.default_value = 0;
  EXPECT_EQ(ids_of(column, Texts{"G", "X"}), (Ints{1, 0}));
  column.default_value = 9;
  EXPECT_EQ(column.buckets(), 10);
  column.default_value.reset();
  column.num_oov_buckets = 2;
  EXPECT_EQ(ids_of(column, Texts{"X", "7"}), (Ints{3 + hash_bucket("X", 2), 2}));
  EXPECT_EQ(ids_of(column, Ints{11}), (Ints{3 + hash_bucket("11", 2)}));
  EXPECT_EQ(column.buckets(), 5);
}

TEST(VocabularyFile, IsReadByLines) {
  const TempDir dir;
  const auto read = [&](const std::string& text, int64_t size = 0, bool ints = false) {
    return Vocabulary::read(write_file(dir, "v.txt", text), size, ints)->entries();
  };
  using Entries = std::vector<std::string>;
  EXPECT_EQ(read("a\nb\r\nc d"), (Entries{"a", "b", "c d"}));
  EXPECT_EQ(read("a\n\nb\n"), (Entries{"a", "", "b"}));
  EXPECT_EQ(read("a\nb\nb\n", 2), (Entries{"a", "b"}));
  EXPECT_EQ(read("1\n-2\n", 0, true), (Entries{"1", "-2"}));
  const auto error = [&](const std::string& text, int64_t size = 0, bool ints = false) {
    return message_of([&] { read(text, size, ints); });
  };
  EXPECT_MENTIONS(error("a\nb\na\n"), "'a' twice");
  EXPECT_MENTIONS(error("1\nx\n", 0, true), "v.txt:2: 'x' is not an int64 number");
  EXPECT_MENTIONS(error("1\n07\n", 0, true), "v.txt:2: '07'");
  EXPECT_MENTIONS(error("a\n", 2), "has 1 lines, fewer than the vocabulary_size of 2");
  EXPECT_MENTIONS(error(""), "is empty");
  EXPECT_MENTIONS(message_of([&] { Vocabulary::read(dir / "none", 0, false); }),
                  "cannot read vocabulary file");
}

}  // namespace
}  // namespace embers::data
