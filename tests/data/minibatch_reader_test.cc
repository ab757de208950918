#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/categorical.h"
#include "tests/data/testutil.h"

namespace embers::data {
namespace {

const std::string kColumns = R"(columns = [
  { name = "n", type = "int" }, { name = "x", type = "float" }, { name = "s" },
  { name = "y", type = "label", positive = "yes" }])";

TEST(Decoding, OneColumnFeedsSeveralFeatures) {
  const TempDir dir;
  const Minibatch m = read_all(job_over(dir, "4,1.5,a,yes\n-7,2e1,b,no\n", kColumns, R"([features]
n_key = { column = "n" }
n_text = { column = "n", keys = "string" }
n = { as = "numeric", transform = "standardize", mean = 2, std = 4 }
n_log = { column = "n", as = "numeric", transform = "log1p" }
x = { transform = "minmax", min = 1, max = 3 }
raw = { column = "x" }
s = {})"));
  EXPECT_EQ(m.examples, 2);
  EXPECT_EQ(keys_of(m.ids[0]), "4|-7");
  EXPECT_EQ(m.ids[0].keys.kind(), KeyKind::kInt64);
  EXPECT_EQ(keys_of(m.ids[1]), "4|-7");
  EXPECT_EQ(m.ids[1].keys.kind(), KeyKind::kBytes);
  EXPECT_EQ(keys_of(m.ids[2]), "a|b");
  EXPECT_EQ(m.numeric, (std::vector<float>{0.5f, std::log1p(4.f), 0.25f, 1.5f, -2.25f, 0.f, 9.5f, 20.f}));
  EXPECT_EQ(m.labels, (std::vector<float>{1, 0}));
  EXPECT_EQ(m.records, (std::vector<uint64_t>{0, 1}));
}

TEST(Decoding, MissingValuesBecomeTheirKeyOrNumberOrNothing) {
  const TempDir dir;
  const Minibatch m =
      read_all(job_over(dir, "?,,?,yes\n1,2,a,no\n", "missing = [\"\", \"?\"]\n" + kColumns, R"([features]
n = { missing = -1 }
n_none = { column = "n" }
s = { missing = "gone" }
s_none = { column = "s" }
x = {}
x7 = { column = "x", missing = 7 }
xs = { column = "x", transform = "standardize", mean = 3, std = 2 })"));
  EXPECT_EQ(keys_of(m.ids[0]), "-1|1");
  EXPECT_EQ(keys_of(m.ids[1]), "|1");
  EXPECT_EQ(keys_of(m.ids[2]), "gone|a");
  EXPECT_EQ(keys_of(m.ids[3]), "|a");
  EXPECT_EQ(m.ids[0].width, 1);
  EXPECT_EQ(m.ids[1].width, 0);
  EXPECT_EQ(m.numeric, (std::vector<float>{0, 7, 0, 2, 2, -0.5}));
}

TEST(Decoding, ManyValuesInOneColumnGiveRaggedIds) {
  const TempDir dir;
  const std::string columns =
      "columns = [{ name = \"t\", separator = \";\" }, { name = \"i\", type = \"int\", separator = \"::\" }]";
  const Minibatch m = read_all(job_over(dir, "a;b;c,1::2\nd;,3::4\n,5::6\n", columns,
                                        "[features]\nt = {}\ni = {}\n"
                                        "m = { column = \"t\", missing = \"none\" }"));
  EXPECT_EQ(keys_of(m.ids[0]), "a,b,c|d|");
  EXPECT_EQ(m.ids[0].offsets, (std::vector<int64_t>{0, 3, 4, 4}));
  EXPECT_EQ(m.ids[0].width, 0);
  EXPECT_EQ(keys_of(m.ids[1]), "1,2|3,4|5,6");
  EXPECT_EQ(m.ids[1].width, 2);
  EXPECT_EQ(keys_of(m.ids[2]), "a,b,c|d|none");
  EXPECT_TRUE(m.labels.empty());
}

TEST(Decoding, TakesNumbersToTheEndsOfTheirRange) {
  const TempDir dir;
  const Minibatch m = read_all(job_over(
      dir, "9223372036854775807,3.4e38,s,yes\n-9223372036854775808,-3.4e38,s,no\n+5,+.5,s,no\n", kColumns));
  EXPECT_EQ(keys_of(m.ids[0]), "9223372036854775807|-9223372036854775808|5");
  EXPECT_EQ(m.numeric, (std::vector<float>{3.4e38f, -3.4e38f, 0.5f}));
}

// Whole numbers of few digits, and logarithms of small ones, go a shorter way.
TEST(Decoding, WholeNumbersAreWhatTheyAreAsDecimals) {
  const TempDir dir;
  const std::vector<std::string> numbers = {
      "0",   "-0", "007", "-12", "1023", "1024", "999999999999999", "9999999999999999", "-999999999999999",
      "3.5", "1e3"};
  std::string text;
  for (const std::string& number : numbers) text += number + "\n";
  const Minibatch m = read_all(job_over(dir, text, "columns = [{ name = \"n\", type = \"float\" }]",
                                        "[features]\nn = { as = \"numeric\" }\n"
                                        "l = { column = \"n\", as = \"numeric\", transform = \"log1p\" }\n"));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double x = std::strtod(numbers[i].c_str(), nullptr);
    EXPECT_EQ(m.numeric[2 * i], static_cast<float>(x)) << numbers[i];
    EXPECT_EQ(std::signbit(m.numeric[2 * i]), std::signbit(x)) << numbers[i];
    EXPECT_EQ(m.numeric[2 * i + 1], static_cast<float>(std::log1p(std::max(x, 0.0)))) << numbers[i];
    EXPECT_EQ(std::signbit(m.numeric[2 * i + 1]), std::signbit(std::max(x, 0.0))) << numbers[i];
  }
}

// A column that feeds one feature goes a shorter way than one that feeds two.
TEST(Decoding, AColumnOfOneFeatureIsDecodedAsThatOfTwo) {
  const TempDir dir;
  const std::string rows = "1,a,\n,,2\n3.5,b,?\n-0,?,1e3\n1,c,x\n7,a,8\n";
  for (const std::string header : {"", "n,s,m\n", "s,m,n\n"})
    for (const std::string missing : {"", "missing = [\"\", \"?\"]\n", "missing = []\n"}) {
      std::string text = header;
      for (std::string_view rest = rows; !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(line.size() + 1);
        const size_t one = line.find(','), two = line.rfind(',');
        const std::string n(line.substr(0, one)), s(line.substr(one + 1, two - one - 1)),
            m(line.substr(two + 1));
        text += header == "s,m,n\n" ? s + "," + m + "," + n + "\n" : n + "," + s + "," + m + "\n";
      }
      const auto read = [&](const std::string& more) {
        return read_all(job_over(dir, text,
                                 "columns = [{ name = \"n\", type = \"float\" }, { name = \"s\" }, { name = "
                                 "\"m\", type = \"float\" }]\n"
                                 "on_bad_row = \"skip\"\n" +
                                     missing + (header.empty() ? "" : "header = true\n"),
                                 "[features]\nn = { as = \"numeric\", transform = \"log1p\", missing = 5 }\n"
                                 "m = { as = \"numeric\" }\n"
                                 "s = { as = \"hash_bucket\", hash_bucket_size = 1000 }\n" +
                                     more));
      };
      const Minibatch alone = read("");
      const Minibatch shared = read(
          "n2 = { column = \"n\", as = \"numeric\" }\nm2 = { column = \"m\", as = \"numeric\" }\n"
          "s2 = { column = \"s\", as = \"hash_bucket\", hash_bucket_size = 10, missing = \"z\" }\n");
      ASSERT_EQ(alone.examples, shared.examples);
      ASSERT_GT(alone.skipped, 0);
      EXPECT_EQ(alone.skipped, shared.skipped);
      EXPECT_EQ(alone.ids[0].keys, shared.ids[0].keys);
      EXPECT_EQ(alone.ids[0].offsets, shared.ids[0].offsets);
      for (int64_t e = 0; e < alone.examples; ++e)
        for (int64_t k = 0; k < 2; ++k) EXPECT_EQ(alone.numeric[2 * e + k], shared.numeric[4 * e + k]);
    }
}

// Missing values of a hashed column have the id of what stands in for them, or none.
TEST(Decoding, AMissingHashedValueIsItsKeyOrNothing) {
  const TempDir dir;
  const std::string columns = "columns = [{ name = \"a\" }, { name = \"b\" }]";
  const Minibatch m =
      read_all(job_over(dir, "x,\n,x\n", columns,
                        "[features]\na = { as = \"hash_bucket\", hash_bucket_size = 1000 }\n"
                        "b = { as = \"hash_bucket\", hash_bucket_size = 1000, missing = \"x\" }\n"));
  const std::string x = std::to_string(hash_bucket("x", 1000));
  EXPECT_EQ(keys_of(m.ids[0]), x + "|");
  EXPECT_EQ(keys_of(m.ids[1]), x + "|" + x);
  EXPECT_EQ(m.ids[0].width, 0);
  EXPECT_EQ(m.ids[1].width, 1);
}

TEST(Decoding, LabelsMayBeNumbers) {
  const TempDir dir;
  EXPECT_EQ(read_all(job_over(dir, "1\n0\n2.5\n", "columns = [{ name = \"y\", type = \"label\" }]")).labels,
            (std::vector<float>{1, 0, 2.5}));
}

TEST(BadRows, NameFileLineAndColumn) {
  const TempDir dir;
  const std::string declared = kColumns.substr(0, kColumns.rfind(" }]")) + ", negative = \"no\" }]";
  const std::pair<const char*, const char*> cases[] = {
      {"1,2,s", "expected 4 columns, found 3"},
      {"1,2,s,yes,", "expected 4 columns, found 5"},
      {"1.5,2,s,yes", "column 'n': '1.5' is not an int64 number"},
      {"12x,2,s,yes", "column 'n': '12x' is not an int64 number"},
      {"+-1,2,s,yes", "column 'n': '+-1' is not an int64 number"},
      {"9223372036854775808,2,s,yes",
       "column 'n': '9223372036854775808' is out of the range of an int64 number"},
      {"1,two,s,yes", "column 'x': 'two' is not a finite number"},
      {"1,nan,s,yes", "column 'x': 'nan' is not a finite number"},
      {"1,-inf,s,yes", "column 'x': '-inf' is not a finite number"},
      {"1,1e39,s,yes", "column 'x': '1e39' is out of the range of float"},
      {"1,1e999,s,yes", "column 'x': '1e999' is out of the range of a finite number"},
      {"1,2,s,maybe", "column 'y': label 'maybe' is not one of the declared values"},
      {"1,2,s,", "column 'y': the label is missing"},
      {"1,2,\"s\"t,yes", "text after the closing quote of field 3"},
      {"1,\x01,s,yes", "column 'x': '\\x01' is not a finite number"},
  };
  for (const auto& [row, part] : cases) {
    const std::string message =
        read_error(job_over(dir, std::string("1,2,s,yes\n\n") + row + "\n", declared));
    EXPECT_EQ(message.rfind(dir / "t.csv:3: ", 0), 0u) << message;
    EXPECT_MENTIONS(message, part);
  }
}

TEST(BadRows, LongTextsAreCut) {
  const TempDir dir;
  EXPECT_LT(read_error(job_over(dir, "1," + std::string(5000, 'x') + ",s,yes\n", kColumns)).size(), 300u);
}

TEST(BadRows, WithOnlyPositiveValuesEveryOtherLabelIsNegative) {
  const TempDir dir;
  EXPECT_EQ(read_all(job_over(dir, "1,2,s,maybe\n", kColumns)).labels, std::vector<float>{0});
}

TEST(BadRows, AreSkippedAndCountedWhereTheJobSaysSo) {
  const TempDir dir;
  const Minibatch m = read_all(
      job_over(dir, "1,2,a,yes\n2,x,b,yes\n3\n4,5,c,no\n5,6,d,\n", "on_bad_row = \"skip\"\n" + kColumns));
  EXPECT_EQ(m.examples, 2);
  EXPECT_EQ(m.skipped, 3);
  EXPECT_EQ(keys_of(m.ids[0]), "1|4");
  EXPECT_EQ(keys_of(m.ids[1]), "a|c");
  EXPECT_EQ(m.numeric, (std::vector<float>{2, 5}));
  EXPECT_EQ(m.labels, (std::vector<float>{1, 0}));
  EXPECT_EQ(m.records, (std::vector<uint64_t>{0, 3}));
}

TEST(BadRows, AMinibatchOfThemIsEmpty) {
  const TempDir dir;
  const Minibatch m = read_all(job_over(dir, "x\ny\n", "on_bad_row = \"skip\"\n" + kColumns));
  EXPECT_EQ(m.examples, 0);
  EXPECT_EQ(m.skipped, 2);
  EXPECT_EQ(m.ids[0].width, 0);
}

TEST(BadRows, ColumnsThatNobodyUsesAreNotRead) {
  const TempDir dir;
  const Minibatch m = read_all(job_over(dir, "no number,2,s,yes\n", kColumns, "[features]\ns = {}"));
  EXPECT_EQ(keys_of(m.ids[0]), "s");
}

std::string numbered_rows(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += std::to_string(i) + "\n";
  return text;
}

const std::string kNumber = "block_records = 7\ncolumns = [{ name = \"n\", type = \"int\" }]";

Job numbered(const TempDir& dir, uint32_t batch_size) {
  return job_over(dir, numbered_rows(0, 100), kNumber, "",
                  {"training.batch_size=" + std::to_string(batch_size)});
}

std::vector<int64_t> read_epoch(const Job& job, uint64_t epoch, bool shuffle) {
  const auto dataset = Dataset::open(job, Split::kTrain, "");
  const auto reader = MinibatchReader::make(dataset, shuffle);
  std::vector<int64_t> out;
  for (uint64_t i = 0; i < dataset->minibatches(); ++i) {
    const Minibatch m = reader->read(epoch, i);
    const auto ints = m.ids[0].keys.view().ints;
    EXPECT_TRUE(std::equal(ints.begin(), ints.end(), m.records.begin(), m.records.end()));
    out.insert(out.end(), ints.begin(), ints.end());
  }
  return out;
}

TEST(MinibatchReader, SlicesTheFileOrderWithoutShuffle) {
  const TempDir dir;
  const auto read = read_epoch(numbered(dir, 16), 3, false);
  ASSERT_EQ(read.size(), 100u);
  EXPECT_TRUE(std::is_sorted(read.begin(), read.end()));
}

TEST(MinibatchReader, AnEpochHoldsEveryRecordOnceInAnOrderOfItsOwn) {
  const TempDir dir;
  const auto first = read_epoch(numbered(dir, 16), 0, true), second = read_epoch(numbered(dir, 16), 1, true);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 100u);
  EXPECT_EQ(first.size(), 100u);
  EXPECT_NE(first, second);
}

TEST(MinibatchReader, TheOrderDoesNotDependOnTheBatchSize) {
  const TempDir dir;
  const auto order = read_epoch(numbered(dir, 16), 5, true);
  for (const uint32_t batch_size : {1, 3, 7, 50, 100, 1000}) {
    EXPECT_EQ(read_epoch(numbered(dir, batch_size), 5, true), order) << batch_size;
  }
}

TEST(MinibatchReader, TheLastMinibatchIsShort) {
  const TempDir dir;
  const auto dataset = Dataset::open(numbered(dir, 16), Split::kTrain, "");
  EXPECT_EQ(dataset->records(), 100u);
  EXPECT_EQ(dataset->minibatches(), 7u);
  const auto reader = MinibatchReader::make(dataset, true);
  const Minibatch last = reader->read(2, 6);
  EXPECT_EQ(last.examples, 4);
  EXPECT_EQ(last.epoch, 2u);
  EXPECT_EQ(last.index, 6u);
  EXPECT_EQ(last.ids[0].width, 1);
}

TEST(MinibatchReader, ReadsTheSameWhateverItReadBefore) {
  const TempDir dir;
  const auto dataset = Dataset::open(numbered(dir, 10), Split::kTrain, "");
  const auto reader = MinibatchReader::make(dataset, true);
  for (const auto& [epoch, index] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 9}, {1, 0}, {0, 9}, {3, 4}, {0, 0}}) {
    const Minibatch again = reader->read(epoch, index);
    EXPECT_EQ(again.ids[0].keys, MinibatchReader::make(dataset, true)->read(epoch, index).ids[0].keys);
  }
}

TEST(MinibatchReader, AMinibatchBeyondTheEpochIsRefused) {
  const TempDir dir;
  const auto reader = MinibatchReader::make(Dataset::open(numbered(dir, 10), Split::kTrain, ""), true);
  EXPECT_MENTIONS(message_of([&] { reader->read(0, 10); }), "an epoch has 10");
}

TEST(MinibatchReader, AFileChangedInPlaceIsNoticed) {
  const TempDir dir;
  const auto dataset = Dataset::open(numbered(dir, 10), Split::kTrain, "");
  std::ofstream(dir / "t.csv", std::ios::app) << "5\n";
  const auto reader = MinibatchReader::make(dataset, true);
  EXPECT_MENTIONS(message_of([&] { reader->read(0, 0); }), "t.csv' changed while the job was reading it");
}

TEST(MinibatchReader, AFileReplacedOnDiskIsReadAsItWas) {
  const TempDir dir;
  const auto dataset = Dataset::open(numbered(dir, 10), Split::kTrain, "");
  std::filesystem::rename(write_file(dir, "other", "1\n"), dir / "t.csv");
  EXPECT_EQ(MinibatchReader::make(dataset, false)->read(0, 9).records.back(), 99u);
}

}  // namespace
}  // namespace embers::data
