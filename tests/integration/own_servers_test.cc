// The memcached and Redis servers that a job starts for itself: who gets into them, and when they end.
#include <dirent.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/integration/jobs.h"
#include "tests/support/servers.h"

namespace embers::testing_support {
namespace {

// Inodes of the process's sockets.
std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code gone;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    const std::string to = std::filesystem::read_symlink(fd.path(), gone);
    if (to.starts_with("socket:[")) inodes.insert(to.substr(8, to.size() - 9));
  }
  return inodes;
}

// How many TCP and UDP ports a process has open to strangers.
size_t open_ports(pid_t pid) {
  const std::set<std::string> mine = sockets_of(pid);
  const std::string listening = "0A", unconnected = "07";
  size_t count = 0;
  for (const char* const table : {"tcp", "tcp6", "udp", "udp6"}) {
    std::istringstream lines(read_file("/proc/" + std::to_string(pid) + "/net/" + table));
    std::string line;
    std::getline(lines, line);  // the names of the columns
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::vector<std::string> columns(std::istream_iterator<std::string>(words), {});
      if (columns.size() > 9 && (columns[3] == listening || columns[3] == unconnected))
        count += mine.count(columns[9]);
    }
  }
  return count;
}

struct Own {
  pid_t pid;
  std::string address;
  bool runs() const { return ::kill(pid, 0) == 0; }
};

class OwnServersOfAJob : public testing::TestWithParam<std::string> {
 protected:
  OwnServersOfAJob() {
    std::filesystem::create_directory(folder_.path("t"));
    ::setenv("TMPDIR", folder_.path("t").c_str(), 1);
    folder_.write("secret", std::string(64, 'a'));
    std::filesystem::permissions(folder_.path("secret"), std::filesystem::perms(0600));
    ::setenv("EMBERS_SECRET_FILE", folder_.path("secret").c_str(), 1);
  }
  ~OwnServersOfAJob() override {
    ::unsetenv("TMPDIR");
    ::unsetenv("EMBERS_SECRET_FILE");
  }

  // Whether anything is in the folder for temporary files.
  bool left_something() const { return !std::filesystem::is_empty(folder_.path("t")); }

  // What a process said of its job's own servers so far.
  static std::vector<Own> own_servers(const Process& process) {
    const std::string out = process.output(), before = "the job's own " + GetParam() + " server (pid ";
    std::vector<Own> servers;
    for (size_t at = 0; (at = out.find(before, at)) != out.npos; ++at) {
      std::istringstream words(out.substr(at + before.size(), out.find('\n', at) - at - before.size()));
      Own own;
      std::string close, word;
      words >> own.pid >> close >> word >> own.address;  // "123) at ADDRESS"
      servers.push_back(own);
    }
    return servers;
  }

  static Words backend() { return set({"storage.backend=" + GetParam()}); }
  // Without end.
  Words slow() {
    return folder_.probe("slow") + set({"model.sleep_ms=20", "training.epochs=100000"}) + backend();
  }

  // Says it to a server in a connection of its own. Returns the beginning of the answer: "" if the server
  // hangs up.
  static std::string say(uint16_t port, std::string_view what) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = loopback(port);
    const timeval patience{20, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::string answer(256, '\0');
    ssize_t n = -1;
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::write(fd, what.data(), what.size()) == static_cast<ssize_t>(what.size()))
      n = ::read(fd, answer.data(), answer.size());
    const int error = n < 0 ? errno : 0;
    ::close(fd);
    if (n < 0 && error != ECONNRESET) throw std::runtime_error(std::strerror(error));
    answer.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return answer;
  }

  JobFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(All, OwnServersOfAJob, testing::Values("memcached", "redis"),
                         [](const auto& param) { return param.param; });

TEST_P(OwnServersOfAJob, HaveNoPortWhereAllMembersAreOnThisHost) {
  const auto train = folder_.start(Words{"train", folder_.job()} + slow() + set({"storage.own_servers=2"}));
  Cluster cluster(folder_, 1, 1, slow() + set({"storage.own_servers=2"}));
  ASSERT_TRUE(wait_until([&] { return train->has_printed(" examples  "); })) << train->output();
  ASSERT_TRUE(cluster.is_training()) << cluster.master->output();
  for (const Process* const process : {train.get(), cluster.master.get()}) {
    const std::vector<Own> servers = own_servers(*process);
    ASSERT_EQ(servers.size(), 2u) << process->output();
    for (const Own& own : servers) {
      EXPECT_EQ(open_ports(own.pid), 0u) << own.address;
      ASSERT_TRUE(own.address.starts_with("unix:/")) << own.address;
      const std::filesystem::path socket = own.address.substr(5);
      EXPECT_TRUE(std::filesystem::is_socket(socket)) << socket;
      EXPECT_EQ(std::filesystem::status(socket.parent_path()).permissions(), std::filesystem::perms(0700))
          << socket;
    }
  }
}

// Where members may come from other hosts.
TEST_P(OwnServersOfAJob, LetNoStrangerInAtTheirPort) {
  const std::string expected = folder_.train(set({"training.mode=sync"}));
  Cluster cluster(folder_, 1, 0,
                  Words{"--listen", "0.0.0.0:0"} +
                      set({"training.mode=sync", "training.workers=1", "storage.own_servers=2"}) + backend());
  const std::vector<Own> servers = own_servers(*cluster.master);
  ASSERT_EQ(servers.size(), 2u) << cluster.master->output();
  for (const Own& own : servers) {
    const auto port = static_cast<uint16_t>(std::stoi(own.address.substr(own.address.rfind(':') + 1)));
    EXPECT_EQ(open_ports(own.pid), 1u) << own.address;
    if (GetParam() == "redis") {
      for (const std::string command :
           {"PING", "GET x", "SET x y", "CONFIG SET dir /tmp", "SAVE", "FLUSHALL", "MODULE LIST", "SHUTDOWN"})
        EXPECT_EQ(say(port, command + "\r\n").substr(0, 7), "-NOAUTH") << command;
      for (const std::string command : {"AUTH wrong", "AUTH embers wrong", "AUTH default wrong"})
        EXPECT_EQ(say(port, command + "\r\n").substr(0, 10), "-WRONGPASS") << command;
    } else {
      // The text protocol, which knows no password here; as long as a header of the binary one.
      for (std::string command : {"version", "set x 0 0 1\r\ny", "get x", "flush_all", "stats"}) {
        for (command += "\r\n"; command.size() < 24;) command += command;
        EXPECT_EQ(say(port, command), "") << command;
      }
      // Requests of the binary protocol and the status that it has for them: 0x20 is "not authenticated".
      const auto status_of = [&](char opcode, std::string_view key, std::string_view value = {}) {
        std::string request(24, '\0');
        request[0] = '\x80';
        request[1] = opcode;
        request[3] = static_cast<char>(key.size());
        request[11] = static_cast<char>(key.size() + value.size());
        const std::string answer = say(port, request.append(key).append(value));
        return answer.size() < 8 ? -1 : answer[6] << 8 | answer[7];
      };
      constexpr char kGet = 0x00, kFlush = 0x08, kStat = 0x10, kSaslAuth = 0x21;
      for (const char opcode : {kGet, kFlush, kStat})
        EXPECT_EQ(status_of(opcode, opcode == kGet ? "x" : ""), 0x20) << int{opcode};
      EXPECT_EQ(status_of(kSaslAuth, "PLAIN", std::string_view("\0embers\0wrong", 13)), 0x20);
    }
    EXPECT_TRUE(own.runs());
  }
  cluster.add_worker();
  cluster.expect_success();
  EXPECT_EQ(folder_.read("rows"), expected);
}

TEST_P(OwnServersOfAJob, EndWithIt) {
  const auto train = folder_.start(Words{"train", folder_.job(), "--output", folder_.path("model")} + slow() +
                                   set({"storage.own_servers=3"}));
  ASSERT_TRUE(wait_until([&] { return train->has_printed(" examples  "); })) << train->output();
  const std::vector<Own> servers = own_servers(*train);
  ASSERT_EQ(servers.size(), 3u) << train->output();
  EXPECT_TRUE(std::all_of(servers.begin(), servers.end(), [](const Own& o) { return o.runs(); }));
  train->signal(SIGINT);
  EXPECT_EQ(train->wait(), 0) << train->output();
  EXPECT_TRUE(std::none_of(servers.begin(), servers.end(), [](const Own& o) { return o.runs(); }));
  EXPECT_FALSE(left_something());
}

TEST_P(OwnServersOfAJob, EndWithAMasterThatIsKilled) {
  for (const Words& listen : {Words{}, Words{"--listen", "0.0.0.0:0"}}) {
    Cluster cluster(folder_, 1, 1, slow() + set({"storage.own_servers=3"}) + listen);
    ASSERT_TRUE(cluster.is_training()) << cluster.master->output();
    const std::vector<Own> servers = own_servers(*cluster.master);
    ASSERT_EQ(servers.size(), 3u) << cluster.master->output();
    ASSERT_TRUE(std::all_of(servers.begin(), servers.end(), [](const Own& o) { return o.runs(); }));
    EXPECT_TRUE(left_something());
    cluster.master->signal(SIGKILL);
    EXPECT_TRUE(wait_until(
        [&] { return std::none_of(servers.begin(), servers.end(), [](const Own& o) { return o.runs(); }); }));
    EXPECT_TRUE(wait_until([&] { return !left_something(); }));
    EXPECT_EQ(cluster.shards[0]->wait(20), 1);
    EXPECT_NE(cluster.workers[0]->wait(20), -1);
  }
}

// Members hear the password from the master.
TEST_P(OwnServersOfAJob, ARedisOfTheUserMayAskForAPassword) {
  if (GetParam() != "redis") return;
  const ServerProcess server = ServerProcess::redis({"--requirepass", "open sesame"});
  const Words job = backend() + set({"storage.servers=" + server.address(), "training.workers=1"});
  EXPECT_EQ(folder_.run(Words{"train", folder_.job()} + job), 2);
  EXPECT_NE(folder_.output().find("NOAUTH"), std::string::npos) << folder_.output();
  EXPECT_NE(folder_.output().find("EMBERS_REDIS_PASSWORD"), std::string::npos) << folder_.output();
  ::setenv("EMBERS_REDIS_PASSWORD", "open sesame", 1);
  folder_.train(job);
  Cluster cluster(folder_, 1, 0, job);
  ::setenv("EMBERS_REDIS_PASSWORD", "wrong", 1);
  EXPECT_EQ(folder_.run(Words{"train", folder_.job()} + job), 2);
  EXPECT_NE(folder_.output().find("WRONGPASS"), std::string::npos) << folder_.output();
  ::unsetenv("EMBERS_REDIS_PASSWORD");
  cluster.add_worker();
  cluster.expect_success();
  EXPECT_GT(folder_.report()["rows_read_directly"], 0);
}

}  // namespace
}  // namespace embers::testing_support
