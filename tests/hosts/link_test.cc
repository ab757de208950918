// The network between hosts, without embers. Times are only ever compared with what no link of this kind can
// fall short of.
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>

#include "tests/support/hosts.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace embers::testing_support {
namespace {

class NetworkOfHosts : public testing::Test {
 protected:
  explicit NetworkOfHosts(int hosts) : hosts_(hosts) {}
  void SetUp() override { SKIP_WITHOUT_HOSTS(hosts_); }

  using Words = std::vector<std::string>;
  std::unique_ptr<Process> start(int host, Words words) {
    words.insert(words.begin(), path_of(EMBERS_HOSTS));
    return std::make_unique<Process>(hosts_.on(host, words), dir_ / ("log." + std::to_string(++processes_)));
  }

  // Listens on host 1.
  void listen(const std::string& address = LocalHosts::ipv4(1)) {
    sink_ = start(1, {"receive", address, "7000"});
    ASSERT_TRUE(wait_until([&] { return sink_->has_printed("listening"); })) << sink_->output();
  }
  std::unique_ptr<Process> send(size_t bytes, const std::string& address = LocalHosts::ipv4(1),
                                int from = 0) {
    return start(from, {"send", address, "7000", std::to_string(bytes)});
  }
  // How long it takes to connect, send so many bytes, and hear that they have come.
  double seconds_of(size_t bytes, const std::string& address = LocalHosts::ipv4(1)) {
    return seconds_of(*send(bytes, address));
  }
  static double seconds_of(Process& sender) {
    EXPECT_EQ(sender.wait(), 0) << sender.output();
    double seconds = 0;
    std::string ready;
    std::istringstream(sender.output()) >> ready >> seconds;
    return seconds;
  }

  LocalHosts hosts_;
  TempDir dir_;
  int processes_ = 0;
  std::unique_ptr<Process> sink_;
};

struct LinkOfTwoHosts : NetworkOfHosts {
  LinkOfTwoHosts() : NetworkOfHosts(2) {}
};
struct SwitchOfThreeHosts : NetworkOfHosts {
  SwitchOfThreeHosts() : NetworkOfHosts(3) {}
};

TEST_F(LinkOfTwoHosts, IsNotFasterThanItsRate) {
  hosts_.set_rate(80e6);
  listen();
  EXPECT_GE(seconds_of(4'000'000), 0.4);
}

TEST_F(LinkOfTwoHosts, DelaysEachPacketBothWays) {
  hosts_.set_delay(0.05);
  listen();
  EXPECT_GE(seconds_of(1), 0.2);  // a connection is made, then a byte is sent: two round trips
}

TEST_F(LinkOfTwoHosts, HasNamesAndBothProtocols) {
  listen(LocalHosts::name(1));
  seconds_of(1000, LocalHosts::name(1));
  sink_.reset();
  if (!hosts_.has_ipv6()) GTEST_SKIP() << "this machine has no IPv6";
  listen(LocalHosts::ipv6_name(1));
  seconds_of(1000, LocalHosts::ipv6(1));
}

TEST_F(LinkOfTwoHosts, LosesWhatIsSentWhileItIsCut) {
  listen();
  hosts_.cut();
  const uint64_t before = hosts_.packets();
  const auto sender = send(1000);
  ASSERT_TRUE(wait_until([&] { return hosts_.packets() >= before + 2; }));  // it tries again
  EXPECT_EQ(sender->wait(0), -1) << sender->output();
  hosts_.set_up();
  EXPECT_EQ(sender->wait(), 0) << sender->output();
}

TEST_F(LinkOfTwoHosts, KeepsWhatIsSentWhileItIsStalled) {
  listen();
  hosts_.stall();
  const uint64_t before = hosts_.packets();
  const auto sender = send(1000);
  ASSERT_TRUE(wait_until([&] { return hosts_.packets() >= before + 1; }));
  EXPECT_EQ(sender->wait(0), -1) << sender->output();
  hosts_.set_up();
  EXPECT_EQ(sender->wait(), 0) << sender->output();
}

TEST_F(LinkOfTwoHosts, LosesAShareOfItsPackets) {
  listen();
  hosts_.set_loss(1);
  const auto sender = send(1000);
  const uint64_t before = hosts_.packets();
  ASSERT_TRUE(wait_until([&] { return hosts_.packets() >= before + 2; }));
  EXPECT_EQ(sender->wait(0), -1) << sender->output();
  hosts_.set_loss(0.02);
  EXPECT_EQ(sender->wait(), 0) << sender->output();
  seconds_of(2'000'000);
}

TEST_F(LinkOfTwoHosts, LeavesAHostWithoutACardNoRoute) {
  listen();
  hosts_.unplug(0);
  const auto sender = send(1000);
  EXPECT_EQ(sender->wait(), 1);
  EXPECT_TRUE(sender->has_printed("Network is unreachable")) << sender->output();
  hosts_.plug(0);
  seconds_of(1000);
}

TEST_F(SwitchOfThreeHosts, TakesEachHostToEachOther) {
  listen(LocalHosts::name(1));
  for (const int from : {0, 2}) seconds_of(*send(1000, LocalHosts::name(1), from));
}

TEST_F(SwitchOfThreeHosts, IsNotFasterThanTheCardThatAllSendTo) {
  hosts_.set_rate(80e6);
  listen();
  const auto begin = std::chrono::steady_clock::now();
  const auto one = send(2'000'000), other = send(2'000'000, LocalHosts::ipv4(1), 2);
  for (Process* const sender : {one.get(), other.get()}) seconds_of(*sender);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(400));
}

}  // namespace
}  // namespace embers::testing_support
