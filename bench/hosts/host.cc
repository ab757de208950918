#include "bench/hosts/host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "base/errors.h"

namespace embers {
namespace {

constexpr int kMtu = 1500;
constexpr unsigned char kNet4[] = {10, 77, 0}, kNet6[] = {0xfd, 0x77};  // and then a host's number + 1

// linux/ipv6.h's, which cannot be included beside the headers of libc.
struct Ipv6Request {
  in6_addr address;
  uint32_t prefix;
  int device;
};

void must(bool good, const char* what) {
  if (!good) fail(ErrorCode::kUnavailable, "cannot {}: {}", what, std::strerror(errno));
}

ifreq request(const char* device) {
  ifreq r{};
  std::strncpy(r.ifr_name, device, sizeof r.ifr_name - 1);
  return r;
}

void change_flags(int socket, const char* device, int on, int off) {
  ifreq r = request(device);
  must(::ioctl(socket, SIOCGIFFLAGS, &r) == 0, "ask for a device");
  r.ifr_flags = static_cast<short>((r.ifr_flags | on) & ~off);
  must(::ioctl(socket, SIOCSIFFLAGS, &r) == 0, "change a device");
}

void set_ipv4(int socket, unsigned long what, const std::string& address) {
  ifreq r = request(Host::kDevice);
  auto* const to = reinterpret_cast<sockaddr_in*>(&r.ifr_addr);
  to->sin_family = AF_INET;
  ::inet_pton(AF_INET, address.c_str(), &to->sin_addr);
  must(::ioctl(socket, what, &r) == 0, "give a device its address");
}

// Puts a file with this text over another one.
void cover(const char* path, const std::string& text) {
  std::string name = std::filesystem::temp_directory_path() / "embers-host-XXXXXX";
  const int file = ::mkstemp(name.data());
  must(file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
           ::fchmod(file, 0644) == 0,
       "write a temporary file");
  ::close(file);
  const bool covered = ::mount(name.c_str(), path, nullptr, MS_BIND, nullptr) == 0;
  const int why = errno;
  ::unlink(name.c_str());
  errno = why;
  must(covered, "mount over a file");
}

void write_file_of_proc(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  must(file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
       "map a user to root");
  ::close(file);
}

}  // namespace

bool become_root() {
  if (::geteuid() == 0 && ::unshare(CLONE_NEWNET) == 0) return false;
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  must(::unshare(CLONE_NEWUSER) == 0, "make a user namespace");
  write_file_of_proc("/proc/self/setgroups", "deny");
  write_file_of_proc("/proc/self/uid_map", fmt::format("0 {} 1", user));
  write_file_of_proc("/proc/self/gid_map", fmt::format("0 {} 1", group));
  return true;
}

std::optional<int> Host::receiver(std::span<const char> packet) {
  constexpr size_t kAddress4 = kHeaderBytes + 16, kAddress6 = kHeaderBytes + 24;
  const auto is_in = [&](size_t at, std::span<const unsigned char> net, size_t bytes) {
    return packet.size() >= at + bytes && std::memcmp(packet.data() + at, net.data(), net.size()) == 0;
  };
  const int version = packet.size() > kHeaderBytes ? packet[kHeaderBytes] >> 4 : 0;
  if (version == 4 && is_in(kAddress4, kNet4, 4)) return packet[kAddress4 + 3] - 1;
  if (version == 6 && is_in(kAddress6, kNet6, 16)) return packet[kAddress6 + 15] - 1;
  return std::nullopt;
}

// A thread has the host's namespaces, and keeps them.
Host::Host(int number, int hosts) : number_(number), hosts_(hosts) {
  std::promise<void> made;
  std::thread([&] {
    try {
      make();
    } catch (...) {
      return made.set_exception(std::current_exception());
    }
    made.set_value();
    for (;;) ::pause();
  }).detach();
  made.get_future().get();
}

void Host::make() {
  must(::unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS) == 0, "make namespaces");
  must(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
  task_ = fmt::format("/proc/{}/task/{}", ::getpid(), ::syscall(SYS_gettid));
  make_names();
  make_network();
}

void Host::make_names() const {
  must(::sethostname(name(number_).c_str(), name(number_).size()) == 0, "set the name of a host");
  std::string hosts = "127.0.0.1 localhost\n::1 localhost\n";
  for (int n = 0; n < hosts_; ++n) hosts += fmt::format("{} {}\n", ipv4(n), name(n));
  for (int n = 0; n < hosts_; ++n) hosts += fmt::format("{} {}.v6\n", ipv6(n), name(n));
  cover("/etc/hosts", hosts);
  cover("/proc/sys/kernel/random/boot_id",
        fmt::format("77777777-0000-4000-8000-{:012x}\n", ::getpid() * kMost + number_));
}

void Host::make_network() {
  control_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  must(control_ >= 0, "make a socket");
  control6_ = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  change_flags(control_, "lo", IFF_UP, 0);
  device_ = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  must(device_ >= 0, "open /dev/net/tun");
  ifreq tun = request(kDevice);
  tun.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  must(::ioctl(device_, TUNSETIFF, &tun) == 0, "make a TUN device");
  must(::ioctl(device_, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) == 0,
       "let a TUN device take large packets");
  set_ipv4(control_, SIOCSIFADDR, ipv4(number_));
  set_ipv4(control_, SIOCSIFNETMASK, "255.255.255.0");
  ifreq mtu = request(kDevice);
  mtu.ifr_mtu = kMtu;
  must(::ioctl(control_, SIOCSIFMTU, &mtu) == 0, "set the MTU of a device");
  set_up(true);
}

void Host::set_up(bool up) {
  up ? change_flags(control_, kDevice, IFF_UP | IFF_RUNNING, 0) : change_flags(control_, kDevice, 0, IFF_UP);
  if (up) add_ipv6();  // a device that goes down loses these addresses
}

// Some machines have no IPv6.
void Host::add_ipv6() {
  ifreq r = request(kDevice);
  Ipv6Request address{{}, 64, 0};
  ::inet_pton(AF_INET6, ipv6(number_).c_str(), &address.address);
  if (control6_ < 0 || ::ioctl(control_, SIOCGIFINDEX, &r) != 0) return;
  address.device = r.ifr_ifindex;
  has_ipv6_ = ::ioctl(control6_, SIOCSIFADDR, &address) == 0 || errno == EEXIST;
}

}  // namespace embers
