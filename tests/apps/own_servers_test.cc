// The servers that a job starts for itself: who gets in, with what, and what is left of them.
#include "apps/process/own_servers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "apps/process/joining.h"
#include "apps/process/private_folder.h"
#include "base/host.h"
#include "tests/support/expect_error.h"
#include "tests/support/servers.h"

namespace embers {
namespace {

namespace fs = std::filesystem;
using storage::connect_servers;
using storage::ServerLogin;
using testing_support::expect_error;
using testing_support::read_file;
using testing_support::TempDir;

constexpr uint32_t kMb = 64;

// $TMPDIR while it lives.
class TemporaryFiles {
 public:
  explicit TemporaryFiles(const std::string& folder) { ::setenv("TMPDIR", folder.c_str(), 1); }
  ~TemporaryFiles() { before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR"); }

 private:
  static std::optional<std::string> given() {
    const char* const text = std::getenv("TMPDIR");
    return text == nullptr ? std::nullopt : std::optional<std::string>(text);
  }
  const std::optional<std::string> before_ = given();
};

// Connects to a server without a client library.
int stranger(const std::string& address) {
  const storage::ServerAddress at = storage::parse_server(address);
  const int fd = ::socket(at.unix_socket() ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in port = testing_support::loopback(at.port);
  const sockaddr_un path = testing_support::unix_address(at.host);
  const int error = at.unix_socket() ? ::connect(fd, reinterpret_cast<const sockaddr*>(&path), sizeof path)
                                     : ::connect(fd, reinterpret_cast<const sockaddr*>(&port), sizeof port);
  if (error != 0) throw std::runtime_error("cannot connect to " + address);
  return fd;
}

// Says a line to Redis and returns the line that it answers, without its end.
std::string say(int fd, const std::string& line) {
  std::string answer;
  if (::write(fd, (line + "\r\n").data(), line.size() + 2) < 0) return "";
  for (char c; ::read(fd, &c, 1) == 1 && c != '\n';)
    if (c != '\r') answer += c;
  return answer;
}

struct Where {
  std::string backend;
  std::optional<std::string> host;
  friend std::ostream& operator<<(std::ostream& out, const Where& where) {
    return out << where.backend << (where.host ? " at a port" : " at a Unix socket");
  }
};

class OwnServersTest : public testing::TestWithParam<Where> {
 protected:
  static OwnServers::Options options(uint32_t count = 1) {
    std::optional<ServerPlace> place;
    if (const auto host = GetParam().host)
      place = ServerPlace{*host, *host == "0.0.0.0" ? host_name() : *host};
    return {GetParam().backend, count, place, kMb, 1, 0};
  }
  storage::KeyValueServers connect(const ServerLogin& login) const {
    return connect_servers(GetParam().backend, servers_.addresses(), {}, login);
  }

  const OwnServers servers_{options(2)};
};
INSTANTIATE_TEST_SUITE_P(All, OwnServersTest,
                         testing::Values(Where{"memcached", {}}, Where{"redis", {}},
                                         Where{"memcached", "127.0.0.1"}, Where{"redis", "127.0.0.1"},
                                         Where{"memcached", "0.0.0.0"}, Where{"redis", "0.0.0.0"}));

TEST_P(OwnServersTest, TakeTheJobsRows) {
  const auto servers = connect(servers_.login());
  ASSERT_EQ(servers.all.size(), 2u);
  for (const auto& server : servers.all) {
    for (int twice = 0; twice < 2; ++twice, server->reconnect()) {
      server->set("a", "1");
      server->add("a", "2");
      server->add("b", "3");
      EXPECT_EQ(server->barrier("a").mark, "1");
      const std::vector<std::string_view> names = {"a", "none", "b"};
      std::string found;
      server->request(names);
      server->receive([&](size_t i, std::string_view value) { found += fmt::format("{}:{} ", i, value); });
      EXPECT_EQ(found, "0:1 2:3 ");
      EXPECT_GE(server->longest_value(), 1u << 19);
    }
  }
}

TEST_P(OwnServersTest, LetOnlyInWhoKnowsThePassword) {
  const ServerLogin& login = servers_.login();
  EXPECT_EQ(login.password.empty(), !GetParam().host);
  if (!GetParam().host) return;
  EXPECT_EQ(login.password.size(), 64u);
  const std::vector<ServerLogin> wrong = {{login.user, "wrong"},
                                          {login.user, login.password.substr(0, 63)},
                                          {"root", login.password},
                                          {"default", login.password}};
  for (const ServerLogin& tried : wrong) {
    try {
      connect(tried);
      ADD_FAILURE() << tried.user << " got in";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUnreachable) << e.what();
      EXPECT_EQ(std::string(e.what()).find(tried.password), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("password"), std::string::npos) << e.what();
    }
  }
  if (GetParam().backend == "redis")
    expect_error(ErrorCode::kUnreachable, {servers_.addresses()[0], "NOAUTH"}, [&] { connect({}); });
  else
    expect_error(ErrorCode::kUnavailable, {servers_.addresses()[0]}, [&] {
      const auto servers = connect({});
      servers.all[0]->set("a", "1");
      servers.all[0]->barrier("a");
    });
  const auto servers = connect(login);
  EXPECT_EQ(servers.all[0]->barrier("a").mark, "");
}

TEST_P(OwnServersTest, RedisTakesOnlyTheCommandsThatAJobNeeds) {
  if (GetParam().backend != "redis") return;
  const int fd = stranger(servers_.addresses()[0]);
  const ServerLogin& login = servers_.login();
  if (GetParam().host) {
    EXPECT_EQ(say(fd, "PING").substr(0, 7), "-NOAUTH");
    ASSERT_EQ(say(fd, "AUTH " + login.user + " " + login.password), "+OK");
  }
  EXPECT_EQ(say(fd, "DEBUG SLEEP 0").substr(0, 10), "-ERR DEBUG") << "refused to all, whatever they may do";
  EXPECT_EQ(say(fd, "PING"), "+PONG");
  for (const std::string command : {"CONFIG SET dir /tmp",
                                    "CONFIG GET *",
                                    "SAVE",
                                    "BGSAVE",
                                    "BGREWRITEAOF",
                                    "MODULE LIST",
                                    "FLUSHALL",
                                    "FLUSHDB",
                                    "KEYS *",
                                    "SCAN 0",
                                    "DEL a",
                                    "EVAL 0 0",
                                    "FUNCTION LIST",
                                    "REPLICAOF a 1",
                                    "SLAVEOF a 1",
                                    "SHUTDOWN",
                                    "ACL LIST",
                                    "CLIENT LIST",
                                    "MONITOR",
                                    "SUBSCRIBE a",
                                    "MIGRATE a 1 b 0 1",
                                    "RESTORE a 0 b",
                                    "PSYNC a 1"})
    EXPECT_EQ(say(fd, command).substr(0, 7), "-NOPERM") << command;
  EXPECT_EQ(say(fd, "DEBUG SLEEP 0").substr(0, 10), "-ERR DEBUG") << "refused to all, whatever they may do";
  EXPECT_EQ(say(fd, "PING"), "+PONG");
  ::close(fd);
}

TEST_P(OwnServersTest, ShowThePasswordToNobody) {
  if (!GetParam().host) return;
  const std::string& password = servers_.login().password;
  for (const auto& process : fs::directory_iterator("/proc"))
    for (const char* const what : {"cmdline", "environ"})
      EXPECT_EQ(read_file(process.path() / what).find(password), std::string::npos) << process.path();
  for (const std::string& line : servers_.describe()) EXPECT_EQ(line.find(password), std::string::npos);
  EXPECT_NE(OwnServers(options()).login().password, password);
}

TEST_P(OwnServersTest, KeepTheirFilesToThisUser) {
  const TempDir temporary;
  const TemporaryFiles here(temporary.path());
  {
    const OwnServers servers(options(2));
    connect_servers(GetParam().backend, servers.addresses(), {}, servers.login());
    size_t folders = 0, files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(temporary.path())) {
      struct stat file {};
      ASSERT_EQ(::stat(entry.path().c_str(), &file), 0) << entry.path();
      EXPECT_EQ(file.st_mode & (S_IRWXG | S_IRWXO), 0u) << entry.path();
      ++(entry.is_directory() ? folders : files);
    }
    EXPECT_EQ(folders, 1u);
    EXPECT_GT(files, 0u);
  }
  EXPECT_TRUE(fs::is_empty(temporary.path()));
}

TEST(PrivateFolder, IsWhereTheSocketsPathsFit) {
  const TempDir temporary;
  const std::string deep = temporary / std::string(100, 'd');
  fs::create_directory(deep);
  const TemporaryFiles here(deep);
  const PrivateFolder folder(16);
  EXPECT_TRUE(folder.path().starts_with(P_tmpdir "/embers-")) << folder.path();
  EXPECT_TRUE(fs::is_empty(deep));
  expect_error(ErrorCode::kInvalid, {deep, "too long", "TMPDIR"}, [] { PrivateFolder(100); });
}

TEST(PrivateFolder, DoesWithoutAFolderForTemporaryFiles) {
  const TemporaryFiles nowhere("/nowhere");
  const PrivateFolder folder(16);
  EXPECT_TRUE(folder.path().starts_with(P_tmpdir "/embers-")) << folder.path();
}

TEST(PrivateFolder, GoesWithAProcessThatIsKilled) {
  const TempDir temporary;
  const TemporaryFiles here(temporary.path());
  const pid_t child = ::fork();
  if (child == 0) {
    const PrivateFolder folder(16);
    std::ofstream(folder / "file") << "text";
    for (;;) ::pause();
  }
  const auto has_file = [&] {
    for (const auto& folder : fs::directory_iterator(temporary.path()))
      if (fs::exists(folder.path() / "file")) return true;
    return false;
  };
  ASSERT_TRUE(testing_support::wait_until(has_file));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(testing_support::wait_until([&] { return fs::is_empty(temporary.path()); }));
}

TEST(IsOfThisHost, OnlyUnixSocketsAndLoopback) {
  for (const char* const here :
       {"unix:/run/x", "unix:@x", "127.0.0.1:0", "127.1.2.3:7", "[::1]:7", "localhost:7"})
    EXPECT_TRUE(is_of_this_host(parse_endpoint(here))) << here;
  for (const char* const open : {"0.0.0.0:7", "[::]:7", "10.0.0.1:7", "nohost.invalid:7"})
    EXPECT_FALSE(is_of_this_host(parse_endpoint(open))) << open;
}

}  // namespace
}  // namespace embers
