// What a shard's journal gives back to its next process.
#include "storage/journal/write_back_journal.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using testing_support::TempDir;
using Notes = std::vector<std::string>;

class Journal : public testing::Test {
 protected:
  std::unique_ptr<WriteBackJournal> open(uint64_t run = 7, uint32_t shard = 0,
                                         const std::string& job = "job") {
    return std::make_unique<WriteBackJournal>(dir_.path().string(), job, shard, run);
  }
  void begin(WriteBackJournal& journal, TableId table, uint64_t version, const std::vector<float>& floats,
             const Note& note = {}) {
    const WriteBackJournal::Part part{table, version, keys_, floats};
    journal.begin({&part, 1}, note);
  }

  TempDir dir_;
  const Keys keys_ = ints({5});
};

TEST_F(Journal, NotesComeBackInOrderTheOneOfAnApplyThatWasCutOffAmongThem) {
  {
    const auto journal = open();
    EXPECT_FALSE(journal->found());
    begin(*journal, 0, 1, {1}, {"a"});
    journal->done();
    journal->note({"b"});
    begin(*journal, 0, 2, {2}, {"c"});
  }
  const auto journal = open();
  EXPECT_TRUE(journal->found());
  EXPECT_EQ(journal->take_notes(), (Notes{"a", "b", "c"}));
  const auto pending = journal->take_pending();
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].floats, std::vector<float>{2});
  EXPECT_EQ(pending[0].keys, keys_);
  EXPECT_EQ(journal->version(0), 2u);
}

TEST_F(Journal, WhatTakesOverOnAnotherHostLeavesTheFilesAsTheyAre) {
  { open()->note({"a"}); }
  const auto take_over = [&](uint64_t run) { WriteBackJournal(dir_.path().string(), "job", 0, run, true); };
  // Records of another run cannot be read back, nor can those of another host.
  expect_error(ErrorCode::kInvalid, {"shard 0 lost its process", "start the shard where it ran before"},
               [&] { take_over(8); });
  take_over(7);
  EXPECT_EQ(open()->take_notes(), Notes{"a"});
  open(8);
  EXPECT_TRUE(open()->take_notes().empty()) << "a new run starts them over";
}

// As on a full disk: some bytes of the record are written, and then there is room again.
TEST_F(Journal, NothingIsWrittenBehindARecordThatWasCutOff) {
  auto journal = open();
  journal->note({"a"});
  const auto size = std::filesystem::file_size(dir_.path() / "shard-0.ledger");
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit little{size + 10, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  expect_error(ErrorCode::kDisk, {"shard-0.ledger"}, [&] { journal->note({std::string(100, 'b')}); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
  ASSERT_EQ(std::filesystem::file_size(dir_.path() / "shard-0.ledger"), size + 10);
  expect_error(ErrorCode::kDisk, {"was not written to its end"}, [&] { journal->note({"c"}); });
  expect_error(ErrorCode::kDisk, {"was not written to its end"}, [&] { begin(*journal, 0, 1, {1}); });
  journal.reset();
  EXPECT_EQ(open()->take_notes(), Notes{"a"});
}

TEST_F(Journal, AFirstNoteEndsThoseBeforeIt) {
  {
    const auto journal = open();
    journal->note({"a"});
    begin(*journal, 0, 1, {1}, {"b", true});
    journal->done();
    journal->note({"c"});
  }
  EXPECT_EQ(open()->take_notes(), (Notes{"b", "c"}));
  begin(*open(), 0, 2, {1}, {"d", true});
  EXPECT_EQ(open()->take_notes(), (Notes{"d"}));
}

TEST_F(Journal, ANoteWithoutValuesIsKeptLikeOneWithThem) {
  open()->begin({}, {"empty push"});
  for (int i = 0; i < 2; ++i) {
    const auto journal = open();
    EXPECT_EQ(journal->take_notes(), (Notes{"empty push"})) << i;
    EXPECT_TRUE(journal->take_pending().empty());
  }
  {
    const auto journal = open();
    begin(*journal, 0, 1, {1}, {"next"});
    journal->done();
  }
  EXPECT_EQ(open()->take_notes(), (Notes{"empty push", "next"}));
}

TEST_F(Journal, NoVersionAndNoNoteIsForgottenWhenTheValuesBeginAnew) {
  const std::vector<float> many(20 << 20);  // 80 MiB
  {
    const auto journal = open();
    begin(*journal, 3, 5, {1}, {"a"});
    journal->done();
    begin(*journal, 0, 1, many, {"b"});
    journal->done();
  }
  EXPECT_LT(std::filesystem::file_size(dir_ / "shard-0.values"), 1000u);
  {
    const auto journal = open();
    EXPECT_EQ(journal->version(3), 5u);
    EXPECT_EQ(journal->version(0), 1u);
    EXPECT_EQ(journal->take_notes(), (Notes{"a", "b"}));
    // The process dies when the file is due to begin anew: tables that are not added again yet keep their
    // versions.
    begin(*journal, 0, 2, many);
  }
  {
    const auto journal = open();
    EXPECT_EQ(journal->take_pending().size(), 1u);
    journal->done();
  }
  EXPECT_LT(std::filesystem::file_size(dir_ / "shard-0.values"), 1000u);
  EXPECT_EQ(open()->version(3), 5u);
}

TEST_F(Journal, ARecordThatWasCutOffAnywhereNeverWas) {
  {
    const auto journal = open();
    begin(*journal, 0, 1, {1}, {"a"});
    journal->done();
  }
  const std::string file = dir_ / "shard-0.values";
  const auto good = std::filesystem::file_size(file);
  begin(*open(), 0, 2, {2}, {"b"});
  const auto whole = std::filesystem::file_size(file);
  for (auto size = whole - 1; size > good; --size) {
    std::filesystem::resize_file(file, size);
    const auto journal = open();
    EXPECT_EQ(journal->version(0), 1u) << size;
    EXPECT_TRUE(journal->take_pending().empty());
    EXPECT_EQ(journal->take_notes(), (Notes{"a"}));
    begin(*journal, 0, 2, {2}, {"b"});  // as it was
  }
}

TEST_F(Journal, AnotherRunIsRefusedWhileAnyShardOfThisOneHoldsTheDirectory) {
  auto first = open(7, 0, "mine");
  const auto second = open(7, 1, "mine");
  first.reset();
  expect_error(ErrorCode::kInvalid, {dir_.path().string(), "job 'mine' (run 0000000000000007)", "of its own"},
               [&] { open(8, 0, "theirs"); });
  open(7, 0, "mine");
}

TEST_F(Journal, AnotherRunBeginsAnewOnceNobodyHoldsTheDirectory) {
  open()->note({"a"});
  const auto journal = open(8);
  EXPECT_FALSE(journal->found());
  EXPECT_TRUE(journal->take_notes().empty());
}

TEST_F(Journal, AShardsNextProcessWaitsForTheEndOfTheLast) {
  const auto journal = open();
  expect_error(ErrorCode::kInvalid, {"shard 0", "is still running", "pid " + std::to_string(getpid())},
               [&] { open(); });
}

}  // namespace
}  // namespace embers::storage
