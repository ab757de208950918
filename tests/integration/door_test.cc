// Jobs whose processes find and know each other by a job directory or a secret, while strangers knock.
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "actors/door/secret.h"
#include "tests/actors/transport_testing.h"
#include "tests/integration/jobs.h"
#include "tests/support/servers.h"

namespace embers {
namespace {

using namespace testing_support;
using testing_support::Words;

const Words kSync = set({"training.mode=sync", "training.grads_to_wait=4"});

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class Door : public testing::Test {
 protected:
  std::string dir() const { return folder_.path("job"); }
  void write_secret(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    folder_.write(name, text);
    ::chmod(folder_.path(name).c_str(), mode);
  }
  std::unique_ptr<Process> start_master(int shards, const Words& words) {
    return folder_.start(Words{"master", folder_.job(), "--shards", std::to_string(shards), "--workers", "1",
                               "--report", folder_.path("out.json"), "--dump-rows", folder_.path("rows")} +
                         kSync + words);
  }
  std::string address() const {
    const std::string file = dir() + "/address";
    EXPECT_TRUE(wait_until([&] { return std::filesystem::exists(file); }));
    std::string line;
    std::getline(std::istringstream(read_file(file)), line);
    return line;
  }
  void expect_fails(const Words& words, std::initializer_list<std::string> parts) {
    EXPECT_EQ(folder_.run(words), 2) << folder_.output();
    for (const std::string& part : parts)
      EXPECT_NE(folder_.output().find(part), std::string::npos)
          << "no '" << part << "' in " << folder_.output();
  }

  JobFolder folder_;
};

TEST_F(Door, ProcessesFindAndKnowEachOtherByTheJobDirectory) {
  const std::string expected = folder_.train(kSync);
  const Words join{"--job-dir", dir()};
  // Members that come first wait for the master.
  const auto early = folder_.start(Words{"worker"} + join), shard = folder_.start(Words{"shard"} + join);
  const auto master =
      start_master(2, join + Words{"--listen", "127.0.0.1:0", "--listen", "unix:" + folder_.path("s")});
  EXPECT_NE(address().find("127.0.0.1:"), std::string::npos);
  EXPECT_EQ(mode_of(dir()), 0700u);
  EXPECT_EQ(mode_of(dir() + "/secret"), 0600u);
  const std::string secret = read_file(dir() + "/secret");
  EXPECT_EQ(secret.size(), 65u);
  expect_fails({"worker", "--master", address()}, {"asks for its secret", "--job-dir"});
  const auto other = folder_.start(Words{"shard"} + join);
  EXPECT_EQ(master->wait(), 0) << master->output();
  for (const auto& p : {early.get(), shard.get(), other.get()}) EXPECT_EQ(p->wait(), 0) << p->output();
  EXPECT_EQ(folder_.read("rows"), expected);
  EXPECT_FALSE(std::filesystem::exists(dir() + "/address"));
  EXPECT_EQ(read_file(dir() + "/secret"), secret) << "the next run has the same";
}

TEST_F(Door, BeyondTheLoopbackAJobNeedsASecret) {
  expect_fails({"master", folder_.job(), "--listen", "0.0.0.0:0"},
               {"cannot listen on 0.0.0.0:0 without the job's secret", "--job-dir", "--insecure"});
  expect_fails({"worker", "--master", "192.0.2.1:7700"},
               {"cannot connect to 192.0.2.1:7700 without the job's"});
  expect_fails({"shard", "--master", "192.0.2.1:7700"},
               {"cannot connect to 192.0.2.1:7700 without the job's"});
  const Words join{"--job-dir", dir()};
  const auto master = start_master(1, join + Words{"--listen", "0.0.0.0:0"});
  const auto shard = folder_.start(Words{"shard"} + join), worker = folder_.start(Words{"worker"} + join);
  EXPECT_EQ(master->wait(), 0) << master->output();
  EXPECT_EQ(shard->wait(), 0) << shard->output();
  EXPECT_EQ(worker->wait(), 0) << worker->output();
}

TEST_F(Door, AnInsecureJobSaysSoOnBothSides) {
  const Words join{"--job-dir", dir(), "--insecure"};
  const auto master = start_master(1, join + Words{"--listen", "0.0.0.0:0"});
  const std::string where = address();
  EXPECT_FALSE(std::filesystem::exists(dir() + "/secret"));
  write_secret("secret", std::string(64, 'a') + "\n");
  expect_fails({"worker", "--master", where, "--secret-file", folder_.path("secret")},
               {"does not know the job's secret", "--insecure"});
  const auto shard = folder_.start(Words{"shard"} + join),
             worker = folder_.start({"worker", "--master", where, "--insecure"});
  EXPECT_EQ(master->wait(), 0) << master->output();
  EXPECT_EQ(shard->wait(), 0) << shard->output();
  EXPECT_EQ(worker->wait(), 0) << worker->output();
}

TEST_F(Door, ASecretMayBeInAFileOfItsOwn) {
  write_secret("secret", "what everybody of this job knows, and nobody else\n");
  write_secret("other", "what everybody of another job knows, and not we\n");
  ::setenv("EMBERS_SECRET_FILE", folder_.path("secret").c_str(), 1);
  const auto master = start_master(1, {"--job-dir", dir(), "--listen", "127.0.0.1:0"});
  const std::string where = address();
  const auto shard = folder_.start({"shard", "--master", where});
  ::unsetenv("EMBERS_SECRET_FILE");
  EXPECT_FALSE(std::filesystem::exists(dir() + "/secret"));
  for (int i = 0; i < 2; ++i) {
    expect_fails({"worker", "--master", where, "--secret-file", folder_.path("other")}, {"wrong secret"});
    expect_fails({"worker", "--master", where}, {"asks for its secret"});
  }
  const auto worker = folder_.start({"worker", "--master", where, "--secret-file", folder_.path("secret")});
  EXPECT_EQ(master->wait(), 0) << master->output();
  EXPECT_EQ(shard->wait(), 0) << shard->output();
  EXPECT_EQ(worker->wait(), 0) << worker->output();
  EXPECT_EQ(count(master->output(), "refused 127.0.0.1: wrong secret"), 1u) << master->output();
  EXPECT_EQ(count(master->output(), "refused 127.0.0.1: this job asks"), 1u) << master->output();
}

TEST_F(Door, MistakesAreNamed) {
  expect_fails({"worker"}, {"--master HOST:PORT or --job-dir DIR"});
  expect_fails({"worker", "--master", "127.0.0.1:1", "--job-dir", dir()}, {"--job-dir", "excludes"});
  std::filesystem::create_directory(dir());
  ::chmod(dir().c_str(), 0755);
  const Words master{"master", folder_.job(), "--listen", "127.0.0.1:0"};
  expect_fails(master + Words{"--job-dir", dir()}, {"open to other users (mode 755)", "chmod 700"});
  expect_fails({"worker", "--job-dir", dir()}, {"open to other users (mode 755)", "chmod 700"});
  ::chmod(dir().c_str(), 0700);
  expect_fails({"worker", "--job-dir", dir(), "--connect-timeout", "0.1"},
               {"no master has written '" + dir() + "/address' within 0.1 s"});
  write_secret("short", "secret\n");
  expect_fails(master + Words{"--secret-file", folder_.path("short")},
               {folder_.path("short"), "openssl rand"});
  write_secret("wide", std::string(64, 'a'), 0644);
  expect_fails(master + Words{"--secret-file", folder_.path("wide")}, {folder_.path("wide"), "chmod 600"});
  expect_fails(master + Words{"--secret-file", folder_.path("none")}, {folder_.path("none"), "No such file"});
  expect_fails(master + Words{"--secret-file", dir()}, {dir(), "not a regular file"});
  const auto first = start_master(1, {"--listen", "127.0.0.1:0", "--job-dir", dir()});
  address();
  expect_fails(master + Words{"--job-dir", dir()}, {dir()});
}

// --- strangers -----------------------------------------------------------------------------------

// A peer that knows the secret, and shakes hands as a worker.
void shake_hands(RawPeer& peer, const Secret& secret) {
  const auto hello = make_message<wire::Hello>([](wire::Hello::Builder b) {
    b.setProtocol(kProtocol);
    b.setNumberFormat(kNumberFormat);
    b.setRole(wire::Role::WORKER);
    b.setNonce(as_data(make_nonce()));
  });
  peer.send(hello, Destination{}, 0);
  auto in = peer.receive();
  ASSERT_TRUE(in);
  const auto challenge = decode<wire::Challenge>(*in);
  peer.send(
      make_message<wire::Proof>([&](wire::Proof::Builder b) {
        b.setMac(as_data(proof(secret, Prover::kClient, hello.words().bytes(), challenge.words().bytes())));
      }),
      Destination{}, 0);
  in = peer.receive();
  ASSERT_TRUE(in);
  decode<wire::Welcome>(*in);
}

// Each message that a worker may not send, as a frame for the master. Pings are of the connection itself.
template <class... Messages>
std::map<std::string, std::string> forbidden_frames(MessageList<Messages...>) {
  std::map<std::string, std::string> frames;
  const auto add = [&]<class T>() {
    if (!is_of_connection(KindOf<T>::kind) && !may_send(wire::Role::WORKER, KindOf<T>::kind))
      frames[std::string(name(KindOf<T>::kind))] =
          RawPeer::bytes_of(make_message<T>(), Destination::kMaster, 1);
  };
  (add.template operator()<Messages>(), ...);
  return frames;
}

// Opens a connection and says nothing.
int open_silently(const Endpoint& server) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(static_cast<uint16_t>(std::stoi(server.port)));
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error(std::strerror(errno));
  return fd;
}

TEST_F(Door, StrangersDoNotDisturbAJob) {
  const std::string expected = folder_.train(kSync);
  const Words join{"--job-dir", dir()};
  const auto master = start_master(1, join + Words{"--listen", "127.0.0.1:0"});
  const Endpoint server = parse_endpoint(address());
  const auto shard = folder_.start(Words{"shard"} + join);
  const Secret secret(read_file(dir() + "/secret").substr(0, 64));

  rlimit most{};
  ::getrlimit(RLIMIT_NOFILE, &most);
  most.rlim_cur = most.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &most);
  constexpr size_t kSilent = 10'000;
  if (most.rlim_cur < kSilent + 200) GTEST_SKIP() << "it needs " << kSilent << " open files: ulimit -n";
  std::vector<int> silent;
  while (silent.size() < kSilent) silent.push_back(open_silently(server));
  std::atomic<bool> over = false;
  std::thread slow([&] {  // sends a byte now and then, over connections that it opens anew
    const std::string hello = RawPeer::bytes_of(RawPeer::hello(), Destination{}, 0);
    while (!over) try {
        RawPeer peer(server);
        for (size_t i = 0; i + 1 < hello.size() && !over && peer.send(hello.substr(i, 1)); ++i)
          std::this_thread::sleep_for(5ms);
      } catch (const std::exception&) {  // the master has ended
      }
  });
  const auto forbidden = forbidden_frames(AllMessages());
  for (const auto& [name, frame] : forbidden) {
    RawPeer peer(server);
    shake_hands(peer, secret);
    peer.send(frame);
    const Error error = peer.receive_error();
    EXPECT_EQ(error.code(), ErrorCode::kDenied) << error.what();
    EXPECT_EQ(error.what(), "the role worker may not send " + name);
  }
  const auto worker = folder_.start(Words{"worker"} + join);
  EXPECT_EQ(master->wait(), 0) << master->output();
  EXPECT_EQ(shard->wait(), 0) << shard->output();
  EXPECT_EQ(worker->wait(), 0) << worker->output();
  over = true;
  slow.join();
  for (const int fd : silent) ::close(fd);
  EXPECT_EQ(folder_.read("rows"), expected) << "the job is another one";
  const std::string log = master->output();
  EXPECT_EQ(count(log, "refused 127.0.0.1: more than 1024 connections have not shaken hands"), 1u) << log;
  EXPECT_EQ(count(log, "refused 127.0.0.1: the role worker may not send "), forbidden.size()) << log;
}

}  // namespace
}  // namespace embers
