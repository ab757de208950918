#include "storage/checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/files/output_file.h"
#include "storage/checkpoint/checkpoint_paths.h"
#include "tests/storage/file_testing.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers::storage {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing_support::expect_error;
using Floats = std::vector<float>;

ModelSpec model() {
  ModelSpec m;
  m.tables = {spec("color", 2, KeyKind::kBytes), spec("user", 1),
              spec(kDenseTable, kDenseChunk, KeyKind::kBytes), spec("empty", 4)};
  m.tables[0].initializer = {"uniform", {{"minval", -0.1}, {"maxval", 1.0 / 3}}};
  m.tables[0].input_dim = 77;
  m.tables[1].update_rule = {"adam", {{"beta_1", 0.8}}};
  m.tables[1].update_rule.schedule = {"piecewise", {}, {10}, {0.5, 1.0 / 3}};
  m.tables[2].update_rule = {"assign", {}};
  m.tables[2].accumulation = Accumulation::kLast;
  m.dense = {{"fc.weight", {2, 3}, false}, {"bn.mean", {}, true}};
  return m;
}

// Writes `value` into every row of a small model.
void save(const std::string& directory, float value, const json& manifest = {{"version", 1}}) {
  const auto writer = CheckpointWriter::make(directory);
  writer->add(0, strings({"red", ""}), Floats(4, value));
  writer->add(1, ints({-5}), Floats(3, value));
  writer->add(0, strings({"blue"}), Floats(2, value));
  writer->add(2, strings({"fc.weight#0"}), Floats(kDenseChunk, value));
  writer->finish(model(), manifest);
}

std::map<std::string, Floats> rows_of(const CheckpointReader& reader, TableId table, size_t limit = 100) {
  std::map<std::string, Floats> rows;
  reader.read(table, limit, [&](KeysView keys, std::span<const float> values) {
    const size_t width = values.size() / keys.size();
    for (size_t i = 0; i < keys.size(); ++i)
      rows[to_string(keys, i)] = Floats(values.begin() + static_cast<ptrdiff_t>(i * width),
                                        values.begin() + static_cast<ptrdiff_t>((i + 1) * width));
  });
  return rows;
}

// The value that save() gave the checkpoint, after all of it was read.
float value_of(const CheckpointReader& reader) {
  for (TableId table = 0; table < reader.model().tables.size(); ++table) rows_of(reader, table);
  return rows_of(reader, 1).at("-5")[0];
}

float value_at(const std::string& directory) { return value_of(*CheckpointReader::open(directory)); }

class Checkpoint : public testing::Test {
 protected:
  std::vector<std::string> names_beside() const { return names_in(dir_.path()); }
  static std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  testing_support::TempDir dir_;
  std::string at_ = dir_ / "model";
};

TEST_F(Checkpoint, RowsReadBack) {
  save(at_, 1.5);
  const auto reader = CheckpointReader::open(at_);
  EXPECT_EQ(rows_of(*reader, 0),
            (std::map<std::string, Floats>{{"red", {1.5, 1.5}}, {"", {1.5, 1.5}}, {"blue", {1.5, 1.5}}}));
  EXPECT_EQ(rows_of(*reader, 0, 1), rows_of(*reader, 0));
  EXPECT_EQ(rows_of(*reader, 1), (std::map<std::string, Floats>{{"-5", {1.5, 1.5, 1.5}}}));
  EXPECT_EQ(rows_of(*reader, 2).at("fc.weight#0").size(), kDenseChunk);
  EXPECT_TRUE(rows_of(*reader, 3).empty());
}

TEST_F(Checkpoint, TheModelReadsBack) {
  save(at_, 1);
  const auto reader = CheckpointReader::open(at_);
  EXPECT_EQ(reader->model().tables, model().tables);
  EXPECT_EQ(reader->model().dense, model().dense);
}

TEST_F(Checkpoint, TheJobsManifestReadsBackBesideOurEntries) {
  const json job{{"version", 42},
                 {"seed", UINT64_MAX},
                 {"cursor", {{"epoch", 3}, {"minibatch", 7}}},
                 {"loss", 0.1},
                 {"name", "caf\u00e9 \"x\""}};
  save(at_, 1, job);
  const json manifest = CheckpointReader::open(at_)->manifest();
  for (const auto& [key, value] : job.items()) EXPECT_EQ(manifest.at(key), value) << key;
  EXPECT_EQ(manifest.at("tables").at(1).at("slots"), (json{"m", "v"}));
  EXPECT_EQ(manifest.at("files").at(0).at("rows"), 3);
}

TEST_F(Checkpoint, AManifestThatWasReadCanBeWrittenAgain) {
  save(at_, 1);
  const json manifest = CheckpointReader::open(at_)->manifest();
  save(at_, 2, manifest);
  EXPECT_EQ(value_at(at_), 2);
}

TEST_F(Checkpoint, AModelWithoutTablesReadsBack) {
  CheckpointWriter::make(at_)->finish({}, json::object());
  EXPECT_TRUE(CheckpointReader::open(at_)->model().tables.empty());
}

TEST_F(Checkpoint, MissingParentsAreMade) {
  save(dir_ / "a/b/c/", 1);
  EXPECT_EQ(value_at(dir_ / "a/b/c"), 1);
}

TEST_F(Checkpoint, NothingButTheCheckpointIsLeft) {
  save(at_, 1);
  save(at_, 2);
  EXPECT_EQ(names_beside(), (std::vector<std::string>{"model"}));
  EXPECT_EQ(names_in(at_), (std::vector<std::string>{"manifest.json", "rows-2"}));
  EXPECT_EQ(names_in(fs::path(at_) / "rows-2").size(), 4u) << "one file a table";
}

TEST_F(Checkpoint, AnAbandonedOneIsRemovedAndTheOldOneStays) {
  save(at_, 1);
  CheckpointWriter::make(at_)->add(0, strings({"x"}), Floats{9, 9});
  EXPECT_EQ(names_beside(), (std::vector<std::string>{"model"}));
  EXPECT_EQ(value_at(at_), 1);
}

TEST_F(Checkpoint, TheOldOneCanBeReadToItsEndWhileItIsReplaced) {
  save(at_, 1);
  const auto old = CheckpointReader::open(at_);
  save(at_, 2);
  EXPECT_EQ(value_of(*old), 1);
  EXPECT_EQ(value_at(at_), 2);
}

TEST_F(Checkpoint, OtherFilesInTheDirectorySurviveItsReplacement) {
  save(at_, 1);
  spill(fs::path(at_) / "notes.txt", "mine");
  fs::create_directory(fs::path(at_) / "plots");
  save(at_, 2);
  EXPECT_EQ(slurp(fs::path(at_) / "notes.txt"), "mine");
  EXPECT_TRUE(fs::is_directory(fs::path(at_) / "plots"));
  EXPECT_EQ(value_at(at_), 2);
}

TEST_F(Checkpoint, AnEmptyDirectoryIsReplaced) {
  fs::create_directory(at_);
  save(at_, 1);
  EXPECT_EQ(value_at(at_), 1);
}

TEST_F(Checkpoint, ALinkKeepsPointingToTheCheckpoint) {
  save(dir_ / "real", 1);
  fs::create_directory_symlink(dir_ / "real", at_);
  save(at_, 2);
  EXPECT_TRUE(fs::is_symlink(at_));
  EXPECT_EQ(value_at(dir_ / "real"), 2);
}

TEST_F(Checkpoint, ADirectoryWithOtherThingsTakesOneAndKeepsThem) {
  fs::create_directory(at_);
  spill(fs::path(at_) / "thesis.tex", "years of work");
  save(at_, 1);
  save(at_, 2);
  EXPECT_EQ(slurp(fs::path(at_) / "thesis.tex"), "years of work");
  EXPECT_EQ(value_at(at_), 2);
}

TEST_F(Checkpoint, SomethingElseIsNeverReplaced) {
  fs::create_directory(at_);
  spill(fs::path(at_) / kManifestFile, "{\"name\": \"a web page\"}");
  expect_error(ErrorCode::kInvalid, {at_, "not the manifest of a checkpoint"}, [&] { CheckpointWriter::make(at_); });
  EXPECT_EQ(slurp(fs::path(at_) / kManifestFile), "{\"name\": \"a web page\"}");
  spill(dir_ / "file", "text");
  expect_error(ErrorCode::kInvalid, {"file"}, [&] { CheckpointWriter::make(dir_ / "file"); });
  EXPECT_EQ(slurp(dir_ / "file"), "text");
}

TEST_F(Checkpoint, PlacesThatCannotBeWrittenAreNamed) {
  spill(dir_ / "file", "text");
  expect_error(ErrorCode::kInvalid, {"file/model"}, [&] { CheckpointWriter::make(dir_ / "file/model"); });
  for (const char* nowhere : {"", "/"})
    expect_error(ErrorCode::kInvalid, {fmt::format("'{}'", nowhere)},
                 [&] { CheckpointWriter::make(nowhere); });
}

// --- every moment at which a crash may leave the directories ---

class CrashedCheckpoint : public Checkpoint {
 protected:
  CrashedCheckpoint() { save(at_, 1); }

  // Rows and manifest of a finished successor, still outside.
  fs::path make_next() {
    save(dir_ / "next", 7);
    save(dir_ / "next", 2);  // its rows are rows-2, as the successor's of `at_` would be
    return dir_ / "next";
  }
  void expect_next_save_works() {
    save(at_, 3);
    EXPECT_EQ(value_at(at_), 3);
    EXPECT_EQ(names_in(at_).size(), 2u) << "a manifest and its rows";
  }

  CheckpointPaths paths_ = checkpoint_paths(at_);
};

TEST_F(CrashedCheckpoint, WhileWritingRows) {
  fs::create_directory(paths_.fresh_rows);
  spill(paths_.fresh_rows / "0000.rows", "half");
  EXPECT_EQ(value_at(at_), 1);
  expect_next_save_works();
}

TEST_F(CrashedCheckpoint, BeforeTheManifestIsWritten) {
  fs::rename(make_next() / "rows-2", fs::path(at_) / "rows-2");
  EXPECT_EQ(value_at(at_), 1);
  expect_next_save_works();
}

TEST_F(CrashedCheckpoint, WhileWritingTheManifest) {
  fs::rename(make_next() / "rows-2", fs::path(at_) / "rows-2");
  spill(fresh_path(paths_.manifest), "{\"tables");
  EXPECT_EQ(value_at(at_), 1);
  expect_next_save_works();
}

TEST_F(CrashedCheckpoint, BeforeTheOldRowsAreRemoved) {
  const fs::path next = make_next();
  fs::rename(next / "rows-2", fs::path(at_) / "rows-2");
  fs::rename(next / kManifestFile, paths_.manifest);
  EXPECT_EQ(value_at(at_), 2);
  expect_next_save_works();
}

TEST_F(CrashedCheckpoint, WhileTheOldRowsAreRemoved) {
  const fs::path next = make_next();
  fs::rename(next / "rows-2", fs::path(at_) / "rows-2");
  fs::rename(next / kManifestFile, paths_.manifest);
  fs::remove(fs::path(at_) / "rows-1" / "0001.rows");
  EXPECT_EQ(value_at(at_), 2);
  expect_next_save_works();
}

// --- what cannot be read back ---

TEST_F(Checkpoint, APlaceWithoutAManifestIsInvalid) {
  fs::create_directory(at_);
  for (const std::string& where : {at_, dir_ / "nothing"})
    expect_error(ErrorCode::kInvalid, {where, "manifest.json"}, [&] { CheckpointReader::open(where); });
}

TEST_F(Checkpoint, AnUnknownTableIsNamed) {
  save(at_, 1);
  const auto reader = CheckpointReader::open(at_);
  expect_error(ErrorCode::kUnknownTable, {at_, "number 4"}, [&] { rows_of(*reader, 4); });
}

TEST_F(Checkpoint, AMissingOrTruncatedRowsFileIsCorrupt) {
  save(at_, 1);
  const fs::path rows = fs::path(at_) / "rows-1" / "0001.rows";
  fs::resize_file(rows, fs::file_size(rows) - 1);
  expect_error(ErrorCode::kCorrupt, {rows.string()}, [&] { CheckpointReader::open(at_); });
  fs::remove(rows);
  expect_error(ErrorCode::kCorrupt, {rows.string()}, [&] { CheckpointReader::open(at_); });
}

TEST_F(Checkpoint, ADamagedRowsFileIsCorrupt) {
  save(at_, 1);
  const fs::path rows = fs::path(at_) / "rows-1" / "0001.rows";
  std::string bytes = slurp(rows);
  bytes[30] = static_cast<char>(bytes[30] ^ 4);
  spill(rows, bytes);
  expect_error(ErrorCode::kCorrupt, {rows.string()}, [&] { value_at(at_); });
}

TEST_F(Checkpoint, RowsOfAnotherCheckpointAreCorrupt) {
  save(at_, 1);
  save(dir_ / "other", 2);
  fs::copy_file(fs::path(dir_ / "other") / "rows-1" / "0001.rows", fs::path(at_) / "rows-1" / "0001.rows",
                fs::copy_options::overwrite_existing);
  expect_error(ErrorCode::kCorrupt, {"0001.rows"}, [&] { value_at(at_); });
}

// A flipped bit that leaves the meaning alone (one blank for another) may pass; any other is noticed.
TEST_F(Checkpoint, AFlippedBitInTheManifestIsNoticed) {
  save(at_, 1);
  const fs::path path = fs::path(at_) / kManifestFile;
  const std::string bytes = slurp(path);
  const json original = json::parse(bytes);
  size_t noticed = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    poke(path, at, static_cast<char>(bytes[at] ^ (1 << at % 8)));
    try {
      EXPECT_EQ(CheckpointReader::open(at_)->manifest(), original) << "byte " << at;
    } catch (const Error& error) {
      EXPECT_EQ(name(error.code()), name(ErrorCode::kCorrupt)) << error.what();
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
      ++noticed;
    }
    poke(path, at, bytes[at]);
  }
  EXPECT_GT(noticed, bytes.size() / 2);
}

TEST_F(Checkpoint, ATruncatedManifestIsCorrupt) {
  save(at_, 1);
  const fs::path path = fs::path(at_) / kManifestFile;
  const std::string bytes = slurp(path);
  for (const size_t size : {size_t{0}, size_t{1}, bytes.size() / 2, bytes.size() - 2}) {
    spill(path, bytes.substr(0, size));
    expect_error(ErrorCode::kCorrupt, {path.string()}, [&] { CheckpointReader::open(at_); });
  }
}

TEST_F(Checkpoint, AManifestThatIsOtherJsonIsCorrupt) {
  save(at_, 1);
  const fs::path path = fs::path(at_) / kManifestFile;
  for (const char* text :
       {"[]", "7", "{}", "{\"checksum\": 3}", "null", "{\"checksum\": \"0\", \"tables\": 7}"}) {
    spill(path, text);
    expect_error(ErrorCode::kCorrupt, {path.string()}, [&] { CheckpointReader::open(at_); });
  }
}

// --- what is not written ---

TEST_F(Checkpoint, RowsThatDoNotFitAreRefused) {
  const auto refused = [](std::initializer_list<std::string> parts, const auto& action) {
    expect_error(ErrorCode::kInvalid, parts, action);
  };
  const auto writer = CheckpointWriter::make(at_);
  refused({at_, "number 1", "3 floats for 2 keys"}, [&] { writer->add(1, ints({1, 2}), Floats(3)); });
  refused({at_, "number 1"}, [&] { writer->add(1, ints({}), Floats(3)); });
  refused({at_, "number 1"}, [&] { writer->add(1, ints({1}), Floats()); });
  writer->add(1, ints({1}), Floats(2));
  refused({at_, "number 1", "3 floats", "2 floats"}, [&] { writer->add(1, ints({1}), Floats(3)); });
  refused({at_, "number 1", "bytes keys"}, [&] { writer->add(1, strings({"a"}), Floats(2)); });
  refused({at_, "number 1", "2 floats", "3 floats"}, [&] { writer->finish(model(), {}); });
}

TEST_F(Checkpoint, RowsOfATableThatTheModelDoesNotHaveAreRefused) {
  const auto writer = CheckpointWriter::make(at_);
  writer->add(4, ints({1}), Floats(2));
  expect_error(ErrorCode::kInvalid, {at_, "number 4"}, [&] { writer->finish(model(), json::object()); });
  EXPECT_FALSE(fs::exists(fs::path(at_) / kManifestFile));
}

TEST_F(Checkpoint, AManifestThatIsNoTextIsRefused) {
  expect_error(ErrorCode::kInvalid, {at_, "JSON"}, [&] { save(at_, 1, {{"name", "\xff"}}); });
  EXPECT_FALSE(fs::exists(at_));
}

TEST(Outputs, ThatCannotBeWrittenAreFoundOutWithoutTrying) {
  const testing_support::TempDir dir;
  std::ofstream(dir / "file") << "text";
  for (const char* const fine : {"new", "deep/er/new", ""}) check_checkpoint(checkpoint_paths(dir / fine));
  check_file(dir / "file");
  check_file(dir / "other");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir / ""), {}), 1);
  expect_error(ErrorCode::kInvalid, {"file/new", "Not a directory"},
               [&] { check_checkpoint(checkpoint_paths(dir / "file/new")); });
  expect_error(ErrorCode::kInvalid, {"none/file", "No such file"}, [&] { check_file(dir / "none/file"); });
  expect_error(ErrorCode::kInvalid, {"is a directory"}, [&] { check_file(dir / ""); });
}

// A full disk, simulated by the limit on file sizes.
TEST_F(Checkpoint, AFullDiskLeavesTheOldOne) {
  save(at_, 1);
  const auto writer = CheckpointWriter::make(at_);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error(ErrorCode::kDisk, {"0001.rows", "File too large"},
               [&] { writer->add(1, ints(std::vector<int64_t>(1000)), Floats(3000)); });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(value_at(at_), 1);
}

}  // namespace
}  // namespace embers::storage
