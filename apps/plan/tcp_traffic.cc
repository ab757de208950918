#include "apps/plan/tcp_traffic.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <filesystem>

namespace embers::plan {

TcpTraffic TcpTraffic::now() {
  TcpTraffic traffic;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", gone)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    tcp_info info{};
    socklen_t size = sizeof info;
    if (fd < 0 || ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    traffic.sent += info.tcpi_bytes_sent;
    traffic.received += info.tcpi_bytes_received;
  }
  return traffic;
}

}  // namespace embers::plan
