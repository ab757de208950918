// The disk in memory that tests put in the place of the host's: it does what the host's does, and loses what
// that may lose.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/expect_error.h"
#include "tests/support/simulated_disk.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using testing_support::Died;
using testing_support::expect_error;
using testing_support::SimulatedHost;
using testing_support::TempDir;
using Names = std::vector<std::string>;

std::string text_of(Disk& disk, const std::string& path) { return disk.open(path)->read_all(); }

Names sorted(Names names) {
  std::sort(names.begin(), names.end());
  return names;
}

// What a call came to, in words.
template <class Call>
std::string outcome_of(Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    return std::string(name(error.code()));
  }
}

// Some calls with a few names, decided by a seed, below `root`.
std::string play(Disk& disk, const std::string& root, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<File>> files;
  const auto pick = [&](size_t below) { return random() % below; };
  const auto path = [&] {
    const char* const some[] = {"/a", "/b", "/d", "/d/a", "/d/b", "/d/e", "/d/e/a", "/none/a"};
    return root + some[pick(std::size(some))];
  };
  const auto beside = [&](const std::string& from) {
    return from.substr(0, from.size() - 1) + "abde"[pick(4)];
  };
  const auto call = [&]() -> std::string {
    switch (pick(11)) {
      case 0:
        files.push_back(disk.create(path()));
        return "created";
      case 1:
        files.push_back(disk.append(path()));
        return "to be appended to";
      case 2: {
        if (files.empty()) return "";
        File& file = *files[pick(files.size())];
        file.write(std::string(pick(5), "xyz"[pick(3)]));
        return std::to_string(file.size());
      }
      case 3:
        return text_of(disk, path());
      case 4:
        disk.truncate(path(), pick(8));
        return "truncated";
      case 5:
        return disk.exists(path()) ? "exists" : "does not exist";
      case 6:
        return fmt::format("{}", fmt::join(sorted(disk.names_in(path())), " "));
      case 7:
        disk.create_directories(path());
        return "directories created";
      case 8: {
        const std::string from = path();
        disk.rename(from, beside(from));
        return "renamed";
      }
      case 9:
        disk.remove(path());
        return "removed";
      default:
        if (pick(4) > 0) return text_of(disk, path());
        disk.remove_all(path());
        return "all removed";
    }
  };
  std::string all;
  for (int i = 0; i < 60; ++i) all += outcome_of(call) + "\n";
  return all;
}

TEST(SimulatedDisk, DoesWhatTheDiskOfTheHostDoes) {
  std::set<std::string> all;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const TempDir dir;
    SimulatedHost host(seed);
    const auto process = host.start();
    process->create_directories("/root");
    const std::string wanted = play(host_disk(), dir.path().string(), seed);
    ASSERT_EQ(play(*process, "/root", seed), wanted) << seed;
    all.insert(wanted);
  }
  EXPECT_GT(all.size(), 90u);
}

TEST(SimulatedDisk, KeepsWhatAProcessHasWrittenBeyondItsDeath) {
  SimulatedHost host(1);
  const auto first = host.start();
  const auto file = first->create("/a");
  file->write("text");
  first->kill();
  EXPECT_THROW(file->write("more"), Died);
  EXPECT_THROW(first->remove("/a"), Died);
  EXPECT_EQ(text_of(*host.start(), "/a"), "text");
}

TEST(SimulatedDisk, OfADeadHostHasWhatWasSyncedAndTheBeginningOfWhatWasNot) {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SimulatedHost host(seed);
    const auto first = host.start();
    const auto file = first->create("/a");
    first->sync_directory("/");
    file->write("ab");
    file->sync();
    file->write("cd");
    file->write("efg");
    host.die();
    EXPECT_FALSE(first->alive());
    found.insert(text_of(*host.start(), "/a"));
  }
  EXPECT_EQ(found, (std::set<std::string>{"ab", "abc", "abcd", "abcde", "abcdef", "abcdefg"}));
}

TEST(SimulatedDisk, OfADeadHostHasTheFirstOfTheNamesThatWereNotSynced) {
  std::set<Names> found;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SimulatedHost host(seed);
    const auto first = host.start();
    first->create("/a")->sync();
    first->sync_directory("/");
    first->rename("/a", "/b");
    first->create("/c");
    first->remove("/b");
    host.die();
    found.insert(host.start()->names_in("/"));
  }
  EXPECT_EQ(found, (std::set<Names>{{"a"}, {"b"}, {"b", "c"}, {"c"}}));
}

TEST(SimulatedDisk, MayKeepARenameWithoutTheBytesOfTheFile) {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SimulatedHost host(seed);
    const auto first = host.start();
    first->create("/new")->write("text");
    first->rename("/new", "/file");
    first->sync_directory("/");
    host.die();
    found.insert(text_of(*host.start(), "/file"));
  }
  EXPECT_TRUE(found.contains("")) << "as many file systems do";
  EXPECT_TRUE(found.contains("text"));
}

TEST(SimulatedDisk, LetsAProcessDieInTheMiddleOfAWrite) {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SimulatedHost host(seed);
    const auto first = host.start();
    bool told = false;
    first->on_death = [&] { told = true; };
    const auto file = first->create("/a");
    first->kill_after(1);
    file->write("ab");
    EXPECT_THROW(file->write("cde"), Died);
    EXPECT_TRUE(told);
    found.insert(text_of(*host.start(), "/a"));
  }
  EXPECT_EQ(found, (std::set<std::string>{"ab", "abc", "abcd"}));
}

// Two lock files of one process are as apart as those of two.
template <class Other>
void expect_locks(Disk& disk, Other&& other, const std::string& path) {
  auto mine = disk.lock_file(path), theirs = other().lock_file(path);
  EXPECT_TRUE(mine->try_lock());
  mine->sign("me");
  EXPECT_FALSE(theirs->try_lock());
  EXPECT_EQ(theirs->holder(), "me");
  mine->share();
  EXPECT_FALSE(theirs->try_lock());
  theirs->share();
  mine.reset();
  EXPECT_TRUE(theirs->try_lock());
  EXPECT_FALSE(disk.lock_file(path)->try_lock());
  theirs.reset();
  EXPECT_TRUE(disk.lock_file(path)->try_lock());
}

TEST(Disk, GivesALockToOneProcessOrToThoseThatShareIt) {
  const TempDir dir;
  expect_locks(
      host_disk(), []() -> Disk& { return host_disk(); }, dir / "lock");
  SimulatedHost host(1);
  expect_locks(
      *host.start(), [&]() -> Disk& { return *host.start(); }, "/lock");
}

TEST(SimulatedDisk, TakesLocksFromTheDead) {
  SimulatedHost host(1);
  const auto first = host.start();
  const auto lock = first->lock_file("/lock");
  ASSERT_TRUE(lock->try_lock());
  const auto second = host.start()->lock_file("/lock");
  EXPECT_FALSE(second->try_lock());
  first->kill();
  EXPECT_TRUE(second->try_lock());
}

TEST(Disk, NamesWhatItCannotDo) {
  const TempDir dir;
  SimulatedHost host(1);
  const auto process = host.start();
  process->create_directories(dir.path().string());
  for (Disk* disk : {&host_disk(), static_cast<Disk*>(process.get())}) {
    disk->create(dir / "file");
    expect_error(ErrorCode::kInvalid, {dir / "none/file", "No such file"},
                 [&] { disk->create(dir / "none/file"); });
    expect_error(ErrorCode::kInvalid, {dir / "none", "No such file"}, [&] { disk->open(dir / "none"); });
    expect_error(ErrorCode::kInvalid, {dir / "file", "Not a directory"},
                 [&] { disk->create_directories(dir / "file/deep"); });
  }
}

}  // namespace
}  // namespace embers
