#include "storage/checkpoint/rows_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/files/disk.h"
#include "tests/storage/file_testing.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using Floats = std::vector<float>;

struct Content {
  Keys keys;
  Floats values;
  std::vector<size_t> chunks;
};

Content read_all(const std::string& path, RowShape shape, RowsSeal seal, size_t limit) {
  Content content{Keys(shape.kind), {}, {}};
  RowsReader(host_disk().open(path), shape, seal)
      .read(limit, [&](KeysView keys, std::span<const float> values) {
        for (size_t i = 0; i < keys.size(); ++i) content.keys.push_back_from(keys, i);
        content.values.insert(content.values.end(), values.begin(), values.end());
        content.chunks.push_back(keys.size());
      });
  return content;
}

class RowsFile : public testing::Test {
 protected:
  testing_support::TempDir dir_;
  std::string path_ = dir_ / "0000.rows";
};

TEST_F(RowsFile, Int64RowsReadBack) {
  const RowShape shape{KeyKind::kInt64, 2};
  RowsWriter writer(host_disk().create(path_), shape);
  writer.add(ints({5, -7}), Floats{1, 2, 3, 4});
  writer.add(ints({std::numeric_limits<int64_t>::min()}), Floats{-0.0f, 1e-45f});
  const RowsSeal seal = writer.finish();
  EXPECT_EQ(seal.rows, 3u);
  EXPECT_EQ(seal.bytes, slurp(path_).size());
  const Content content = read_all(path_, shape, seal, 100);
  EXPECT_EQ(content.keys, ints({5, -7, std::numeric_limits<int64_t>::min()}));
  EXPECT_EQ(content.values, (Floats{1, 2, 3, 4, -0.0f, 1e-45f}));
  EXPECT_TRUE(std::signbit(content.values[4]));
}

TEST_F(RowsFile, StringRowsReadBack) {
  const RowShape shape{KeyKind::kBytes, 1};
  const Keys keys = strings({"", "a", std::string("\0\xff", 2), std::string(1000, 'z')});
  RowsWriter writer(host_disk().create(path_), shape);
  writer.add(keys, Floats{1, 2, 3, 4});
  const Content content = read_all(path_, shape, writer.finish(), 100);
  EXPECT_EQ(content.keys, keys);
  EXPECT_EQ(content.values, (Floats{1, 2, 3, 4}));
}

TEST_F(RowsFile, AFileWithoutRowsReadsBack) {
  const RowShape shape{KeyKind::kBytes, 3};
  RowsWriter writer(host_disk().create(path_), shape);
  writer.add(strings({}), {});
  EXPECT_TRUE(read_all(path_, shape, writer.finish(), 1).chunks.empty());
}

TEST_F(RowsFile, ChunksHoldAtMostTheLimit) {
  for (const KeyKind kind : {KeyKind::kInt64, KeyKind::kBytes}) {
    const RowShape shape{kind, 1};
    const Keys keys = kind == KeyKind::kInt64 ? ints({1, 2, 3, 4, 5}) : strings({"a", "", "ccc", "dd", "e"});
    RowsWriter writer(host_disk().create(path_), shape);
    writer.add(keys, Floats{1, 2, 3, 4, 5});
    const RowsSeal seal = writer.finish();
    const Content content = read_all(path_, shape, seal, 2);
    EXPECT_EQ(content.chunks, (std::vector<size_t>{2, 2, 1}));
    EXPECT_EQ(content.keys, keys);
    EXPECT_EQ(content.values, (Floats{1, 2, 3, 4, 5}));
    expect_error(ErrorCode::kInvalid, {path_}, [&] { read_all(path_, shape, seal, 0); });
  }
}

// Rows are many times what one block holds.
TEST_F(RowsFile, ALargeAddIsCutIntoBlocks) {
  const RowShape shape{KeyKind::kBytes, 1000};
  Keys keys(KeyKind::kBytes);
  Floats values;
  for (int i = 0; i < 2500; ++i) {
    keys.push_back(std::string_view(std::to_string(i)));
    values.insert(values.end(), 1000, static_cast<float>(i));
  }
  RowsWriter writer(host_disk().create(path_), shape);
  writer.add(keys, values);
  const Content content = read_all(path_, shape, writer.finish(), 1 << 20);
  EXPECT_GT(content.chunks.size(), 1u);
  EXPECT_EQ(content.keys, keys);
  EXPECT_EQ(content.values, values);
}

class DamagedRowsFile : public RowsFile, public testing::WithParamInterface<KeyKind> {
 protected:
  DamagedRowsFile() {
    RowsWriter writer(host_disk().create(path_), shape_);
    for (int block = 0; block < 2; ++block)
      writer.add(GetParam() == KeyKind::kInt64 ? ints({block, 10 + block}) : strings({"ab", "cde"}),
                 Floats(6, 1));
    seal_ = writer.finish();
    bytes_ = slurp(path_);
  }

  void expect_corrupt(const std::string& bytes, const std::string& what) {
    spill(path_, bytes);
    expect_corrupt(what);
  }
  void expect_corrupt(const std::string& what) {
    SCOPED_TRACE(what);
    expect_error(ErrorCode::kCorrupt, {path_}, [&] { read_all(path_, shape_, seal_, 100); });
  }

  RowShape shape_{GetParam(), 3};
  RowsSeal seal_;
  std::string bytes_;
};

TEST_P(DamagedRowsFile, EveryFlippedBitIsNoticed) {
  for (size_t at = 0; at < bytes_.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      poke(path_, at, static_cast<char>(bytes_[at] ^ (1 << bit)));
      expect_corrupt(fmt::format("bit {} of byte {}", bit, at));
    }
    poke(path_, at, bytes_[at]);
  }
}

TEST_P(DamagedRowsFile, EveryTruncationIsNoticed) {
  for (size_t size = 0; size < bytes_.size(); ++size)
    expect_corrupt(bytes_.substr(0, size), fmt::format("{} bytes", size));
}

// The file system may give a truncated file its old size back, filled with zeros.
TEST_P(DamagedRowsFile, EveryTailOfZerosIsNoticed) {
  for (size_t size = 0; size + 8 < bytes_.size(); ++size)
    expect_corrupt(bytes_.substr(0, size) + std::string(bytes_.size() - size, '\0'),
                   fmt::format("{} bytes", size));
}

TEST_P(DamagedRowsFile, MoreBytesAreNoticed) { expect_corrupt(bytes_ + '\0', "one more"); }

TEST_P(DamagedRowsFile, BlocksInAnotherOrderAreNoticed) {
  const size_t block = (bytes_.size() - 16 - 16) / 2;
  expect_corrupt(bytes_.substr(0, 16) + bytes_.substr(16 + block, block) + bytes_.substr(16, block) +
                     bytes_.substr(16 + 2 * block),
                 "blocks exchanged");
}

TEST_P(DamagedRowsFile, AnotherFilesContentIsNoticed) {
  RowsWriter writer(host_disk().create(path_), shape_);
  writer.add(GetParam() == KeyKind::kInt64 ? ints({0, 10, 1, 11}) : strings({"ab", "cde", "ab", "cde"}),
             Floats(12, 2));
  writer.finish();
  expect_corrupt(slurp(path_), "a whole file");
}

TEST_P(DamagedRowsFile, ATableOfAnotherShapeIsNoticed) {
  const KeyKind other = GetParam() == KeyKind::kInt64 ? KeyKind::kBytes : KeyKind::kInt64;
  for (const RowShape shape : {RowShape{GetParam(), 4}, RowShape{other, 3}})
    expect_error(ErrorCode::kCorrupt, {path_}, [&] { read_all(path_, shape, seal_, 100); });
}

TEST_P(DamagedRowsFile, AWrongSealIsNoticed) {
  for (const RowsSeal seal : {RowsSeal{seal_.rows + 1, seal_.bytes, seal_.checksum},
                              RowsSeal{seal_.rows, seal_.bytes + 1, seal_.checksum},
                              RowsSeal{seal_.rows, seal_.bytes, seal_.checksum + 1}})
    expect_error(ErrorCode::kCorrupt, {path_}, [&] { read_all(path_, shape_, seal, 100); });
}

TEST_P(DamagedRowsFile, NoRowIsShownThatDoesNotReadBack) {
  const size_t at = bytes_.size() - 16 - 8 - 3;  // the end of the second block's payload
  poke(path_, at, static_cast<char>(bytes_[at] ^ 1));
  size_t shown = 0;
  expect_error(ErrorCode::kCorrupt, {path_}, [&] {
    RowsReader(host_disk().open(path_), shape_, seal_).read(100, [&](KeysView keys, auto) {
      shown += keys.size();
    });
  });
  EXPECT_EQ(shown, 2u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedRowsFile, testing::Values(KeyKind::kInt64, KeyKind::kBytes),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace embers::storage
