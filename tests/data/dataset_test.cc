#include "data/dataset.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/data/testutil.h"

namespace embers::data {
namespace {

namespace fs = std::filesystem;

const std::string kNumber = "block_records = 4\ncolumns = [{ name = \"n\", type = \"int\" }]";

std::string numbered_rows(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += std::to_string(i) + "\n";
  return text;
}

std::string keys_from(const Job& job, const std::string& index_dir,
                      const std::vector<std::string>& files = {}) {
  Job whole = job;
  whole.training.batch_size = 1 << 20;
  const auto dataset = Dataset::open(whole, Split::kTrain, index_dir, files);
  return dataset->records() == 0 ? "" : keys_of(MinibatchReader::make(dataset, false)->read(0, 0).ids[0]);
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

TEST(Dataset, JoinsFilesInTheirOrderAndGlobsSorted) {
  const TempDir dir;
  for (const char* const name : {"b2", "b1", "a"})
    write_file(dir, name, std::to_string(name[0] * 10 + name[1]) + "\n");
  Job job = job_over(dir, "1\n2\n", kNumber);
  job.data.train = {"t.csv", "b*", "a"};
  EXPECT_EQ(keys_from(job, ""), "1|2|1029|1030|970");
}

TEST(Dataset, FilesGivenReplaceThoseOfTheSplit) {
  const TempDir dir;
  const Job job = job_over(dir, "1\n", kNumber);
  EXPECT_EQ(keys_from(job, "", {write_file(dir, "other.csv", "7\n8\n")}), "7|8");
}

TEST(Dataset, ASplitWithoutFilesHasNoRecords) {
  const TempDir dir;
  const auto dataset = Dataset::open(job_over(dir, "1\n", kNumber), Split::kTest, "");
  EXPECT_EQ(dataset->records(), 0u);
  EXPECT_EQ(dataset->minibatches(), 0u);
}

TEST(Dataset, AnEmptyFileHasNoRecords) {
  const TempDir dir;
  for (const char* const text : {"", "\n\n", "\xef\xbb\xbf"}) {
    EXPECT_EQ(Dataset::open(job_over(dir, text, kNumber), Split::kTrain, "")->records(), 0u);
  }
  EXPECT_EQ(keys_from(job_over(dir, "", "header = true\n" + kNumber), ""), "");
  EXPECT_EQ(keys_from(job_over(dir, "n\n", "header = true\n" + kNumber), ""), "");
}

TEST(Dataset, MissingFilesAreNamed) {
  const TempDir dir;
  Job job = job_over(dir, "1\n", kNumber);
  job.data.train = {"none.csv"};
  EXPECT_MENTIONS(message_of([&] { Dataset::open(job, Split::kTrain, ""); }),
                  "cannot open data file '" + (dir / "none.csv"));
  job.data.train = {"none-*.csv"};
  EXPECT_MENTIONS(message_of([&] { Dataset::open(job, Split::kTrain, ""); }),
                  "no data file matches '" + (dir / "none-*"));
  job.data.train = {"."};
  EXPECT_MENTIONS(message_of([&] { Dataset::open(job, Split::kTrain, ""); }), "is not a regular file");
}

TEST(Dataset, AnOpenQuoteIsPlaced) {
  const TempDir dir;
  const Job job = job_over(dir, "1\n2\n\"3\n4\n", kNumber);
  EXPECT_MENTIONS(message_of([&] { Dataset::open(job, Split::kTrain, ""); }),
                  dir / "t.csv:3: a quote is opened");
}

TEST(Dataset, AnOpenQuoteInALargeFileIsPlacedWithoutReadingItAll) {
  const TempDir dir;
  const Job job = job_over(dir, "1\n\"" + std::string(18 << 20, '\n'), kNumber);
  EXPECT_MENTIONS(message_of([&] { Dataset::open(job, Split::kTrain, ""); }), "t.csv:2: a quote is opened");
}

TEST(Dataset, ReadsFilesLargerThanItsBuffer) {
  const TempDir dir;
  // Rows of 3 MiB and many of a few bytes, across the chunks of the index pass.
  std::string text;
  for (int i = 0; i < 3; ++i) text += "\"" + std::string(3 << 20, 'x') + "\n\"\n" + numbered_rows(0, 1000);
  Job job = job_over(dir, text, "block_records = 100\ncolumns = [{ name = \"s\" }]");
  job.training.batch_size = 1;
  const auto dataset = Dataset::open(job, Split::kTrain, "");
  EXPECT_EQ(dataset->records(), 3003u);
  const auto reader = MinibatchReader::make(dataset, false);
  EXPECT_EQ(reader->read(0, 1001).ids[0].keys.view().bytes.size(), (3u << 20) + 1);
  EXPECT_EQ(keys_of(reader->read(0, 3002).ids[0]), "999");
}

TEST(Dataset, ErrorsNameTheLineOfALateBlock) {
  const TempDir dir;
  const Job job = job_over(dir, numbered_rows(0, 10) + "\n# c\n\nbad\n", "comment = \"#\"\n" + kNumber);
  EXPECT_MENTIONS(read_error(job), "t.csv:14: column 'n': 'bad'");
}

TEST(Dataset, PassesOverAByteOrderMark) {
  const TempDir dir;
  EXPECT_EQ(keys_from(job_over(dir,
                               "\xef\xbb\xbf"
                               "5\n6\n",
                               kNumber),
                      ""),
            "5|6");
  EXPECT_EQ(keys_from(job_over(dir,
                               "\xef\xbb\xbf"
                               "n\n6\n",
                               "header = true\n" + kNumber),
                      ""),
            "6");
}

const std::string kTwo = "header = true\ncolumns = [{ name = \"n\", type = \"int\" }, { name = \"s\" }]";

TEST(Headers, AreNoRecordsButTheFirstLineThatCounts) {
  const TempDir dir;
  EXPECT_EQ(keys_from(job_over(dir, "# c\nn,s\n1,2\n", "comment = \"#\"\n" + kTwo), ""), "1");
}

TEST(Headers, InAnotherOrderMapByName) {
  const TempDir dir;
  Job job = job_over(dir, "s,n\na,1\n", kTwo);
  write_file(dir, "u.csv", "n,s\n2,b\n");
  job.data.train = {"t.csv", "u.csv"};
  const Minibatch m = read_all(job);
  EXPECT_EQ(keys_of(m.ids[0]), "1|2");
  EXPECT_EQ(keys_of(m.ids[1]), "a|b");
}

// A file without a header would lose its first record silently.
TEST(Headers, OfUnknownOrRepeatedNamesAreErrors) {
  const TempDir dir;
  const auto message = [&](const char* csv) {
    const Job job = job_over(dir, csv, kTwo);
    return message_of([&] { Dataset::open(job, Split::kTrain, ""); });
  };
  EXPECT_MENTIONS(message("s,number\na,1\n"),
                  dir / "t.csv:1: the header names 'number', which is not a declared column");
  EXPECT_MENTIONS(message("1,a\n2,b\n"),
                  dir / "t.csv:1: the header names '1', which is not a declared column");
  EXPECT_MENTIONS(message("n,n\n1,a\n"), dir / "t.csv:1: the header names 'n' twice");
}

TEST(Signature, TellsWhatDecidesTheMinibatches) {
  const TempDir dir;
  const Job job = job_over(dir, "1\n2\n", kNumber);
  const auto lines = [&](const Job& j) { return Dataset::open(j, Split::kTrain, "")->signature(); };
  const auto before = lines(job);
  EXPECT_EQ(lines(job), before);
  Job other = job;
  other.data.shuffle = !other.data.shuffle;
  EXPECT_NE(lines(other), before);
  write_file(dir, "t.csv", "2\n1\n");
  const auto after = lines(job);
  ASSERT_EQ(after.size(), before.size());
  EXPECT_NE(after.back(), before.back());
  EXPECT_MENTIONS(after.back(), "training file t.csv with 2 records");
}

TEST(Signature, IsTheSameFromASavedIndex) {
  const TempDir dir;
  const Job job = job_over(dir, "1\n2\n", kNumber);
  const std::string index = dir / "index";
  const auto built = Dataset::open(job, Split::kTrain, index)->signature();
  EXPECT_EQ(Dataset::open(job, Split::kTrain, index)->signature(), built);
}

TEST(Headers, OfAnotherWidthAreErrors) {
  const TempDir dir;
  const Job job = job_over(dir, "\nn,s,t\n1,2,3\n", kTwo);
  EXPECT_MENTIONS(message_of([&] { Dataset::open(job, Split::kTrain, ""); }),
                  dir / "t.csv:2: the header has 3 names, but the job file declares 2 columns");
}

TEST(Compression, GzipAndZstdAreToldByTheirFirstBytes) {
  const TempDir dir;
  const std::string text = numbered_rows(0, 5);
  for (const std::string& packed :
       {gzip(text), zstd(text), gzip("0\n1\n") + gzip("2\n3\n4\n"), zstd("0\n1\n2\n") + zstd("3\n4\n")}) {
    EXPECT_EQ(keys_from(job_over(dir, packed, kNumber), ""), "0|1|2|3|4");
  }
}

TEST(Compression, HoldsForFilesOfManyChunks) {
  const TempDir dir;
  const std::string text = numbered_rows(0, 400000);
  for (const std::string& packed : {gzip(text), zstd(text)}) {
    Job job = job_over(dir, packed, kNumber);
    job.training.batch_size = 1;
    const auto dataset = Dataset::open(job, Split::kTrain, "");
    EXPECT_EQ(dataset->records(), 400000u);
    EXPECT_EQ(keys_of(MinibatchReader::make(dataset, false)->read(0, 399999).ids[0]), "399999");
  }
}

TEST(Compression, TruncatedOrDamagedFilesAreNamed) {
  const TempDir dir;
  const std::string text = numbered_rows(0, 1000);
  for (const std::string& packed : {gzip(text), zstd(text)}) {
    std::string damaged = packed;
    for (size_t i = packed.size() / 2; i < packed.size(); ++i)
      damaged[i] = static_cast<char>(damaged[i] ^ 0x5a);
    for (const std::string& bytes : {packed.substr(0, packed.size() / 2), damaged}) {
      const Job job = job_over(dir, bytes, kNumber);
      EXPECT_MENTIONS(message_of([&] { Dataset::open(job, Split::kTrain, ""); }), "t.csv': damaged");
    }
  }
}

TEST(Compression, TheCopyIsKeptInTheIndexFolderAndUsedAgain) {
  const TempDir dir;
  const Job job = job_over(dir, gzip("1\n2\n"), kNumber);
  const std::string index_dir = dir / "index";
  EXPECT_EQ(keys_from(job, index_dir), "1|2");
  std::vector<fs::path> copies;
  for (const auto& entry : fs::directory_iterator(index_dir)) {
    if (entry.path().extension() == ".rows") copies.push_back(entry.path());
  }
  ASSERT_EQ(copies.size(), 1u);
  // Only a reader of the copy can see this.
  std::ofstream(copies[0]) << "3\n4\n";
  EXPECT_EQ(keys_from(job, index_dir), "3|4");
}

class SavedIndex : public ::testing::Test {
 protected:
  // Tests can tell by the saved file itself whether it was used or rebuilt.
  std::string saved() const { return index_dir_ + "/train.index"; }
  std::string bytes() const {
    std::ifstream file(saved(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const TempDir dir_;
  const std::string index_dir_ = dir_ / "a/b";
  Job job_ = job_over(dir_, "1\n2\n3\n4\n5\n6\n", kNumber);
};

TEST_F(SavedIndex, IsUsedAgainAsLongAsItFits) {
  EXPECT_EQ(keys_from(job_, index_dir_), "1|2|3|4|5|6");
  const auto written = fs::last_write_time(saved()) - std::chrono::hours(1);
  fs::last_write_time(saved(), written);
  EXPECT_EQ(keys_from(job_, index_dir_), "1|2|3|4|5|6");
  EXPECT_EQ(fs::last_write_time(saved()), written);
}

TEST_F(SavedIndex, IsRebuiltWhenAFileChanges) {
  keys_from(job_, index_dir_);
  write_file(dir_, "t.csv", "7\n8\n9\n");
  EXPECT_EQ(keys_from(job_, index_dir_), "7|8|9");
  // The same size, another time.
  write_file(dir_, "t.csv", "70\n80\n");
  fs::last_write_time(dir_ / "t.csv", fs::last_write_time(dir_ / "t.csv") + std::chrono::seconds(5));
  EXPECT_EQ(keys_from(job_, index_dir_), "70|80");
}

TEST_F(SavedIndex, IsRebuiltWhenTheListOfFilesChanges) {
  keys_from(job_, index_dir_);
  write_file(dir_, "u.csv", "7\n");
  job_.data.train.push_back("u.csv");
  EXPECT_EQ(keys_from(job_, index_dir_), "1|2|3|4|5|6|7");
}

TEST_F(SavedIndex, IsRebuiltWhenTheFormatChanges) {
  keys_from(job_, index_dir_);
  job_.data.comment = "3";
  EXPECT_EQ(keys_from(job_, index_dir_), "1|2|4|5|6");
  job_.data.block_records = 2;
  const std::string before = bytes();
  keys_from(job_, index_dir_);
  EXPECT_NE(bytes(), before);
}

TEST_F(SavedIndex, IsRebuiltWhateverDamageItTook) {
  keys_from(job_, index_dir_);
  const std::string whole = bytes();
  ASSERT_GT(whole.size(), 100u);
  for (size_t size = 0; size < whole.size(); size += 5) {
    std::ofstream(saved(), std::ios::binary) << whole.substr(0, size);
    EXPECT_EQ(keys_from(job_, index_dir_), "1|2|3|4|5|6");
    EXPECT_EQ(bytes(), whole);
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    std::ofstream(saved(), std::ios::binary) << damaged;
    EXPECT_EQ(keys_from(job_, index_dir_), "1|2|3|4|5|6");
    EXPECT_EQ(bytes(), whole) << "byte " << i;
  }
}

TEST_F(SavedIndex, IsDoneWithoutWhereItCannotBeWritten) {
  const std::string occupied = write_file(dir_, "file", "x");
  EXPECT_EQ(keys_from(job_, occupied + "/index"), "1|2|3|4|5|6");
  job_ = job_over(dir_, gzip("1\n2\n"), kNumber);
  EXPECT_EQ(keys_from(job_, occupied + "/index"), "1|2");
}

TEST_F(SavedIndex, LeavesNoTemporaryFiles) {
  keys_from(job_, index_dir_);
  EXPECT_EQ(std::distance(fs::directory_iterator(index_dir_), fs::directory_iterator()), 1);
}

TEST(Census, LoadsAsPublished) {
  const TempDir dir;
  Job job = parse_job(read_job(testing_support::path_of(EMBERS_EXAMPLES) + "/census.toml", {}));
  job.data.dir = dir.path().string();
  write_file(dir, "adult.data",
             "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
             "2174, 0, "
             "40, United-States, <=50K\n52, ?, 209642, HS-grad, 9, Married-civ-spouse, ?, Husband, White, "
             "Male, 0, 0, "
             "45, United-States, >50K\n\n");
  write_file(
      dir, "adult.test",
      "|1x3 Cross validator\n25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, "
      "Black, "
      "Male, 0, 0, 40, United-States, <=50K.\n28, Local-gov, 336951, Assoc-acdm, 12, Married-civ-spouse, "
      "Protective-serv, Husband, White, Male, 0, 0, 40, United-States, >50K.\n\n");
  const FeatureSchema schema = job.feature_schema();
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const auto dataset = Dataset::open(job, split, "");
    ASSERT_EQ(dataset->records(), 2u);
    const Minibatch m = MinibatchReader::make(dataset, false)->read(0, 0);
    EXPECT_EQ(m.labels, (std::vector<float>{0, 1}));
    EXPECT_EQ(m.numeric.size(), 2 * schema.numeric.size());
    for (const Ids& ids : m.ids) EXPECT_EQ(ids.width, 1);
    const bool train = split == Split::kTrain;
    EXPECT_EQ(keys_of(m.ids[schema.categorical_index("workclass")]),
              train ? "State-gov|?" : "Private|Local-gov");
    EXPECT_EQ(keys_of(m.ids[schema.categorical_index("age_key")]), train ? "39|52" : "25|28");
  }
}

TEST(Criteo, LoadsBothOfItsCommonShapes) {
  const TempDir dir;
  std::string tail;
  for (int i = 0; i < 25; ++i) tail += i % 2 == 0 ? "\t05db9164" : "\t";
  // I2 is negative, I3 missing, C1 missing.
  const std::string row = "1\t7\t-2\t\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\t" + tail + "\n";
  const Minibatch m = read_all(job_over(dir, row, "format = \"criteo\""));
  EXPECT_EQ(m.labels, std::vector<float>{1});
  EXPECT_FLOAT_EQ(m.numeric[0], std::log1p(7.f));
  EXPECT_EQ(m.numeric[1], 0);
  EXPECT_EQ(m.numeric[2], 0);
  EXPECT_EQ(m.ids.size(), 26u);
  EXPECT_EQ(keys_of(m.ids[0]), "");
  EXPECT_EQ(m.ids[0].width, 1);
  EXPECT_EQ(keys_of(m.ids[1]), "05db9164");

  std::string header = "label";
  for (int i = 1; i <= 13; ++i) header += ",I" + std::to_string(i);
  for (int i = 1; i <= 26; ++i) header += ",C" + std::to_string(i);
  std::string sample = row;
  std::replace(sample.begin(), sample.end(), '\t', ',');
  const Minibatch same = read_all(
      job_over(dir, header + "\n" + sample, "format = \"criteo\"\nseparator = \",\"\nheader = true"));
  EXPECT_EQ(same.numeric, m.numeric);
  for (size_t i = 0; i < m.ids.size(); ++i) EXPECT_EQ(same.ids[i].keys, m.ids[i].keys);
}

}  // namespace
}  // namespace embers::data
