#include "actors/transport/addresses/job_dir.h"
#include "actors/transport/addresses/advertise.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "tests/support/expect_error.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;

class JobDirTest : public testing::Test {
 protected:
  std::string path() const { return dir_ / "jobs/clicks"; }
  std::string in(const std::string& name) const { return path() + "/" + name; }
  void write(const std::string& file, const std::string& text, mode_t mode = 0600) const {
    std::ofstream(file) << text;
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
  }
  static mode_t mode_of(const std::string& file) {
    struct stat status {};
    return ::stat(file.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }

  TempDir dir_;
};

TEST_F(JobDirTest, IsMadeForItsUserOnly) {
  const JobDir job(path());
  EXPECT_EQ(mode_of(path()), 0700u);
  EXPECT_EQ(find_address(path()), std::nullopt);
  EXPECT_FALSE(find_secret(path()));
  EXPECT_EQ(find_address(dir_ / "none"), std::nullopt) << "a member may come before its master";
}

TEST_F(JobDirTest, WithASlashAtTheEndIsTheSame) {
  const JobDir job(path() + "/");
  EXPECT_EQ(mode_of(path()), 0700u);
}

TEST_F(JobDirTest, MakesItsSecretOnceAndKeepsIt) {
  std::string made;
  {
    const JobDir job(path());
    made = job.secret().bytes();
    EXPECT_EQ(job.secret().bytes(), made);
    EXPECT_EQ(mode_of(in("secret")), 0600u);
  }
  EXPECT_EQ(JobDir(path()).secret().bytes(), made);
  EXPECT_EQ(find_secret(path())->bytes(), made);
  EXPECT_EQ(made.size(), 64u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path()), std::filesystem::directory_iterator()),
            1)
      << "nothing else is left there";
}

TEST_F(JobDirTest, TakesASecretThatIsThere) {
  const JobDir job(path());
  write(in("secret"), "a secret that an administrator has chosen\r\n");
  EXPECT_EQ(job.secret().bytes(), "a secret that an administrator has chosen");
}

TEST_F(JobDirTest, SaysWhereTheMasterListensWhileItDoes) {
  const std::vector<Endpoint> endpoints{parse_endpoint("127.0.0.1:7700"), parse_endpoint("unix:@name"),
                                        parse_endpoint("unix:/run/s")};
  {
    JobDir job(path());
    job.announce(endpoints);
    EXPECT_EQ(find_address(path()), endpoints);
    EXPECT_EQ(read_file(in("address")), "127.0.0.1:7700\nunix:@name\nunix:/run/s\n");
    job.announce({endpoints[1]});
    EXPECT_EQ(find_address(path())->size(), 1u);
  }
  EXPECT_EQ(find_address(path()), std::nullopt);
}

TEST_F(JobDirTest, NamesAnAddressThatOthersReach) {
  JobDir job(path());
  job.announce(advertised({parse_endpoint("0.0.0.0:7700"), parse_endpoint("unix:here")}, {}));
  const auto found = find_address(path());
  ASSERT_TRUE(found);
  EXPECT_FALSE(is_wildcard(found->front()));
  EXPECT_EQ(found->front().port, "7700");
  EXPECT_EQ(found->back().host, (std::filesystem::current_path() / "here").string());
}

TEST_F(JobDirTest, LeavesTheAddressOfAnotherMasterAlone) {
  {
    const JobDir job(path());
    write(in("address"), "127.0.0.1:1\n");
  }
  EXPECT_TRUE(find_address(path()));
}

TEST_F(JobDirTest, HasOneMaster) {
  const JobDir job(path());
  expect_error(ErrorCode::kInvalid, {path()}, [&] { JobDir second(path()); });
}

TEST_F(JobDirTest, IsRefusedWhereOthersMayLookOrWrite) {
  std::filesystem::create_directories(path());
  for (const mode_t mode : {0755, 0710, 0701, 0770}) {
    ::chmod(path().c_str(), mode);
    for (const auto& use : std::vector<std::function<void()>>{
             [&] { JobDir job(path()); }, [&] { find_address(path()); }, [&] { find_secret(path()); }})
      expect_error(ErrorCode::kInvalid, {path(), "open to other users", "chmod 700"}, use);
  }
}

TEST_F(JobDirTest, IsRefusedWhereItCannotBe) {
  write(dir_ / "file", "");
  expect_error(ErrorCode::kInvalid, {dir_ / "file"}, [&] { JobDir job(dir_ / "file"); });
  expect_error(ErrorCode::kInvalid, {dir_ / "file/job"}, [&] { JobDir job(dir_ / "file/job"); });
}

TEST_F(JobDirTest, AnAddressThatIsNoneIsNamed) {
  const JobDir job(path());
  for (const std::string text : {"", "nonsense\n", "127.0.0.1:7700\n\n", "127.0.0.1:port\n"}) {
    write(in("address"), text);
    expect_error(ErrorCode::kInvalid, {in("address")}, [&] { find_address(path()); });
  }
  write(in("address"), std::string(100'000, 'x'));
  expect_error(ErrorCode::kInvalid, {in("address"), "more than"}, [&] { find_address(path()); });
}

TEST_F(JobDirTest, ASecretThatOthersMayReadOrThatIsNoneIsNamed) {
  const std::string file = dir_ / "secret";
  for (const mode_t mode : {0604, 0606, 0660, 0620}) {
    write(file, std::string(64, 'a'), mode);
    expect_error(ErrorCode::kInvalid, {file, "open to other users", "chmod 600"}, [&] { read_secret(file); });
  }
  for (const std::string& text :
       {std::string(), std::string("\n\n"), std::string(31, 'a'), std::string(5000, 'a')}) {
    write(file, text);
    expect_error(ErrorCode::kInvalid, {file}, [&] { read_secret(file); });
  }
  expect_error(ErrorCode::kInvalid, {dir_ / "none", "No such file"}, [&] { read_secret(dir_ / "none"); });
  expect_error(ErrorCode::kInvalid, {dir_.path().string(), "not a regular file"},
               [&] { read_secret(dir_.path().string()); });
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  expect_error(ErrorCode::kInvalid, {dir_ / "pipe"}, [&] { read_secret(dir_ / "pipe"); });
}

TEST_F(JobDirTest, ASecretOfRootMayBeGivenToAGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root owns such files";
  write(dir_ / "secret", std::string(64, 'a'), 0440);
  EXPECT_EQ(read_secret(dir_ / "secret").bytes().size(), 64u);
}

TEST_F(JobDirTest, ASecretOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write(dir_ / "secret", std::string(64, 'a'));
  ASSERT_EQ(::chown((dir_ / "secret").c_str(), 65534, 65534), 0);
  expect_error(ErrorCode::kInvalid, {dir_ / "secret", "belongs to user 65534"},
               [&] { read_secret(dir_ / "secret"); });
  std::filesystem::create_directory(dir_ / "theirs");
  ::chmod((dir_ / "theirs").c_str(), 0700);
  ASSERT_EQ(::chown((dir_ / "theirs").c_str(), 65534, 65534), 0);
  expect_error(ErrorCode::kInvalid, {dir_ / "theirs", "belongs to user 65534"},
               [&] { JobDir job(dir_ / "theirs"); });
}

// Of processes that begin at the same time, one makes the secret and all have the same.
TEST_F(JobDirTest, IsGivenOneSecretByManyAtOnce) {
  const JobDir job(path());
  std::set<std::string> secrets;
  Mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&] {
      const std::string bytes = job.secret().bytes();
      const MutexLock lock(mutex);
      secrets.insert(bytes);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(secrets.size(), 1u);
}

}  // namespace
}  // namespace embers
