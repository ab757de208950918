#include "storage/checkpoint/column_join.h"

#include <gtest/gtest.h>

#include <map>

#include "storage/checkpoint/checkpoint.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using Floats = std::vector<float>;
using Rows = std::map<std::string, Floats>;

// The row and one slot of a key, or some columns of them.
Floats row_of(float key, ColumnRange columns) {
  Floats row;
  for (const float part : {0.0f, 0.5f})
    for (uint32_t c = columns.begin; c < columns.end; ++c)
      row.push_back(100 * key + static_cast<float>(c) + part);
  return row;
}

Floats rows_of(const std::vector<int64_t>& keys, ColumnRange columns) {
  Floats rows;
  for (const int64_t key : keys) {
    const Floats row = row_of(static_cast<float>(key), columns);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

void take(Rows& rows, KeysView keys, std::span<const float> values) {
  const size_t width = values.size() / keys.size();
  for (size_t i = 0; i < keys.size(); ++i)
    EXPECT_TRUE(
        rows.emplace(to_string(keys, i), Floats(&values[i * width], &values[i * width] + width)).second);
}

const Rows kExpected{{"1", row_of(1, {0, 5})}, {"2", row_of(2, {0, 5})}, {"3", row_of(3, {0, 5})}};

TEST(ColumnJoin, PutsRowsTogetherWhateverTheOrderOfKeysAndTheNumberOfPasses) {
  for (const uint64_t passes : {1u, 2u, 7u}) {
    Rows rows;
    for (uint64_t pass = 0; pass < passes; ++pass) {
      ColumnJoin join(KeyKind::kInt64, 5, 2, passes, pass);
      join.add({0, 2}, ints({1, 2}), rows_of({1, 2}, {0, 2}));
      join.add({0, 2}, ints({3}), rows_of({3}, {0, 2}));
      join.add({2, 4}, ints({3, 1, 2}), rows_of({3, 1, 2}, {2, 4}));
      join.add({4, 5}, ints({2, 3, 1}), rows_of({2, 3, 1}, {4, 5}));
      join.visit(2, [&](KeysView keys, std::span<const float> values) {
        EXPECT_LE(keys.size(), 2u);
        take(rows, keys, values);
      });
    }
    EXPECT_EQ(rows, kExpected) << passes << " passes";
  }
}

TEST(ColumnJoin, LeavesOutRowsThatNotAllOwnersHaveMade) {
  ColumnJoin join(KeyKind::kBytes, 2, 1);
  join.add({0, 1}, strings({"a", "b"}), Floats{1, 2});
  join.add({1, 2}, strings({"c", "a"}), Floats{3, 4});
  Rows rows;
  join.visit(10, [&](KeysView keys, std::span<const float> values) { take(rows, keys, values); });
  EXPECT_EQ(rows, (Rows{{"a", {1, 4}}}));
  expect_error(ErrorCode::kInternal, {"columns 1 to 3"}, [&] {
    join.add({1, 3}, strings({"a"}), Floats{1, 2});
  });
}

// A table with one slot, and one whose rows are whole.
ModelSpec model() {
  ModelSpec m;
  m.tables = {spec("wide", 5), spec("whole", 2)};
  m.tables[0].update_rule = {"adagrad", {}};
  m.tables[0].partition = Partition::kEncoding;
  return m;
}

class ColumnsOfCheckpoint : public testing::Test {
 protected:
  void save(const std::vector<ColumnRange>& all) const {
    const auto writer = CheckpointWriter::make(directory());
    for (const ColumnRange columns : all) {
      writer->add_columns(0, columns, ints({1, 3}), rows_of({1, 3}, columns));
      writer->add_columns(0, columns, ints({2}), rows_of({2}, columns));
    }
    writer->add(1, ints({8}), Floats{1, 2});
    writer->finish(model(), {});
  }
  std::string directory() const { return dir_ / "model"; }

  testing_support::TempDir dir_;
};

TEST_F(ColumnsOfCheckpoint, ReadBackAsWholeRows) {
  for (const auto& all :
       std::vector<std::vector<ColumnRange>>{{{0, 5}}, {{0, 3}, {3, 5}}, {{0, 1}, {1, 2}, {2, 5}}}) {
    save(all);
    const auto reader = CheckpointReader::open(directory());
    EXPECT_EQ(reader->model().tables[0].partition, Partition::kEncoding);
    EXPECT_EQ(reader->manifest().at("format"), 2);
    EXPECT_EQ(reader->manifest().at("files").at(0).at("columns").size(), all.size());
    EXPECT_TRUE(reader->manifest().at("files").at(1).contains("name"));
    Rows rows, whole;
    reader->read(0, 2, [&](KeysView keys, std::span<const float> values) { take(rows, keys, values); });
    reader->read(1, 2, [&](KeysView keys, std::span<const float> values) { take(whole, keys, values); });
    EXPECT_EQ(rows, kExpected);
    EXPECT_EQ(whole, (Rows{{"8", {1, 2}}}));
  }
}

TEST_F(ColumnsOfCheckpoint, ThatOverlapAreCorrupt) {
  save({{0, 3}, {2, 5}});
  expect_error(ErrorCode::kCorrupt, {"columns 2 to 5 of table 'wide'", "3 to 5"},
               [&] { CheckpointReader::open(directory()); });
}

TEST_F(ColumnsOfCheckpoint, OfAnotherWidthAreRefused) {
  const auto writer = CheckpointWriter::make(directory());
  expect_error(ErrorCode::kInvalid, {"table number 0"}, [&] {
    writer->add_columns(0, {0, 2}, ints({1}), Floats(3));
    writer->finish(model(), {});
  });
}

}  // namespace
}  // namespace embers::storage
