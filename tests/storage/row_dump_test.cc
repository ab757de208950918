#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "storage/checkpoint/checkpoint.h"
#include "storage/checkpoint/checkpoint_paths.h"
#include "tests/storage/file_testing.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers::storage {
namespace {

namespace fs = std::filesystem;
using testing_support::expect_error;
using Floats = std::vector<float>;

class RowDumpTest : public testing::Test {
 protected:
  // What a dump of these tables looks like after `add` filled it.
  template <class Add>
  std::string dump(ModelSpec model, const Add& add) {
    const auto rows = RowDump::make(path_, model);
    add(*rows);
    rows->finish();
    return slurp(path_);
  }

  testing_support::TempDir dir_;
  std::string path_ = dir_ / "rows.tsv";
};

TEST_F(RowDumpTest, WritesALineARow) {
  const std::string text = dump({{spec("t", 2)}, {}}, [](RowDump& d) {
    d.add(0, ints({7}), Floats{1.5, -2});
  });
  EXPECT_EQ(text, "t\t7\t1.5\t-2\n");
}

TEST_F(RowDumpTest, SortsTablesByNameAndNumbersByValue) {
  const std::string text = dump({{spec("b", 1), spec("a", 1)}, {}}, [](RowDump& d) {
    d.add(0, ints({10, 9}), Floats{1, 2});
    d.add(1, ints({5}), Floats{3});
    d.add(0, ints({-3, 100}), Floats{4, 5});
  });
  EXPECT_EQ(text, "a\t5\t3\nb\t-3\t4\nb\t9\t2\nb\t10\t1\nb\t100\t5\n");
}

TEST_F(RowDumpTest, SortsStringsByBytesAndEscapesThem) {
  const std::string text = dump({{spec("t", 1, KeyKind::kBytes)}, {}}, [](RowDump& d) {
    d.add(0, strings({"b", "\xc3\xa9", "", "a\tb", "a", "10", "9"}), Floats{1, 2, 3, 4, 5, 6, 7});
  });
  EXPECT_EQ(text, "t\t\t3\nt\t10\t6\nt\t9\t7\nt\ta\t5\nt\ta\\x09b\t4\nt\tb\t1\nt\t\xc3\xa9\t2\n");
}

TEST_F(RowDumpTest, IsTheSameWhateverTheOrderOfAdding) {
  const ModelSpec model{{spec("t", 1)}, {}};
  const std::string once = dump(model, [](RowDump& d) { d.add(0, ints({3, 1, 2}), Floats{3, 1, 2}); });
  const std::string parts = dump(model, [](RowDump& d) {
    d.add(0, ints({2}), Floats{2});
    d.add(0, ints({1, 3}), Floats{1, 3});
  });
  EXPECT_EQ(once, parts);
}

TEST_F(RowDumpTest, FloatsReadBackExactly) {
  std::mt19937 random(1);
  Floats values{0.1f, 1e-45f, std::numeric_limits<float>::max(), 16777216, 1.0f / 3, -0.0f};
  while (values.size() < 5000) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) values.push_back(value);
  }
  const std::string text =
      dump({{spec("t", 5000)}, {}}, [&](RowDump& d) { d.add(0, ints({1}), values); }).substr(4);
  const char* at = text.data();
  for (const float expected : values) {
    float value = 0;
    at = std::from_chars(at, text.data() + text.size(), value).ptr + 1;
    ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected));
  }
  EXPECT_EQ(at, text.data() + text.size());
}

TEST_F(RowDumpTest, ShowsWhatIsNoNumber) {
  const std::string text = dump({{spec("t", 3)}, {}}, [](RowDump& d) {
    d.add(0, ints({1}),
          Floats{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), NAN});
  });
  EXPECT_EQ(text, "t\t1\tinf\t-inf\tnan\n");
}

ModelSpec dense_model() {
  return {{spec("emb", 1), spec(kDenseTable, kDenseChunk, KeyKind::kBytes),
           spec(kBufferTable, kDenseChunk, KeyKind::kBytes)},
          {{"w", {2, 513}, false}, {"b", {3}, false}, {"mean", {1}, true}}};
}

TEST_F(RowDumpTest, DenseChunksAreShownWithoutPadding) {
  const std::string text = dump(dense_model(), [](RowDump& d) {
    d.add(1, strings({"w#0", "w#1", "b#0"}), Floats(3 * kDenseChunk, 1));
    d.add(2, strings({"mean#0"}), Floats(kDenseChunk, 2));
  });
  std::string full = "_dense\tw#0";
  for (uint32_t i = 0; i < kDenseChunk; ++i) full += "\t1";
  EXPECT_EQ(text, "_buffers\tmean#0\t2\n_dense\tb#0\t1\t1\t1\n" + full + "\n_dense\tw#1\t1\t1\n");
}

TEST_F(RowDumpTest, ADenseChunkThatTheModelDoesNotHaveIsRefused) {
  const auto rows = RowDump::make(path_, dense_model());
  rows->add(1, strings({"w#2"}), Floats(kDenseChunk));
  expect_error(ErrorCode::kInvalid, {path_, "'w#2'"}, [&] { rows->finish(); });
}

TEST_F(RowDumpTest, RowsThatDoNotFitTheTableAreRefused) {
  const auto rows = RowDump::make(path_, {{spec("t", 2)}, {}});
  expect_error(ErrorCode::kInvalid, {path_, "'t'", "dim 2"}, [&] { rows->add(0, ints({1}), Floats(3)); });
  expect_error(ErrorCode::kInvalid, {path_, "'t'", "int64"},
               [&] { rows->add(0, strings({"a"}), Floats(2)); });
  expect_error(ErrorCode::kUnknownTable, {path_, "number 1"}, [&] { rows->add(1, ints({1}), Floats(2)); });
}

TEST_F(RowDumpTest, ReplacesAnOlderDumpOnlyAtTheEnd) {
  const ModelSpec model{{spec("t", 1)}, {}};
  dump(model, [](RowDump& d) { d.add(0, ints({1}), Floats{1}); });
  {
    const auto abandoned = RowDump::make(path_, model);
    abandoned->add(0, ints({2}), Floats{2});
  }
  EXPECT_EQ(slurp(path_), "t\t1\t1\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), {}), 1) << "something was left behind";
  EXPECT_EQ(dump(model, [](RowDump& d) { d.add(0, ints({3}), Floats{3}); }), "t\t3\t3\n");
}

TEST_F(RowDumpTest, AFileThatCannotBeWrittenIsNamedAtOnce) {
  expect_error(ErrorCode::kInvalid, {"no/such", "No such file"},
               [&] { RowDump::make(dir_ / "no/such/rows", {}); });
  expect_error(ErrorCode::kInvalid, {dir_.path().string()}, [&] { RowDump::make(dir_.path().string(), {}); });
}

TEST_F(RowDumpTest, ADeviceIsWrittenToAndALinkFollowed) {
  RowDump::make("/dev/null", {})->finish();
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const ModelSpec model{{spec("t", 1)}, {}};
  fs::create_symlink(dir_ / "target", path_);
  EXPECT_EQ(dump(model, [](RowDump& d) { d.add(0, ints({3}), Floats{3}); }), "t\t3\t3\n");
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(slurp(dir_ / "target"), "t\t3\t3\n");
}

TEST_F(RowDumpTest, AModelWithoutTablesGivesAnEmptyFile) {
  EXPECT_EQ(dump({}, [](RowDump&) {}), "");
  EXPECT_TRUE(fs::exists(path_));
}

}  // namespace
}  // namespace embers::storage
