#include "bench/control/bare_master.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <thread>

#include "apps/process/open_files.h"
#include "apps/process/runtime.h"
#include "base/errors.h"
#include "bench/control/crowd.h"
#include "bench/harness/child.h"

namespace embers {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;
constexpr double kSilence = 5;  // seconds, as a master's by default

// The bytes of a frame but for its correlation.
using Frame = std::vector<std::byte>;

template <class T, class Fill>
Frame make_frame(Fill&& fill) {
  const auto message = make_message<T>(fill);
  FrameHeader header;
  header.kind = static_cast<uint16_t>(KindOf<T>::kind);
  header.flags = FrameHeader::kReply;
  header.words = header.total = static_cast<uint32_t>(message.words().size());
  const auto head = std::as_bytes(std::span(&header, 1));
  Frame frame(head.begin(), head.end());
  frame.insert(frame.end(), message.words().bytes().begin(), message.words().bytes().end());
  return frame;
}

// By kind of request; no answer to an order request, which waits, nor to a ping.
std::map<Kind, Frame> answers() {
  std::map<Kind, Frame> all;
  all[Kind::kHello] = make_frame<wire::Welcome>([](wire::Welcome::Builder b) { b.setSilence(kSilence); });
  all[Kind::kJoinRequest] =
      make_frame<wire::JoinReply>([](wire::JoinReply::Builder b) { b.setIncarnation(1); });
  all[Kind::kHeartbeatRequest] = make_frame<wire::HeartbeatReply>([](wire::HeartbeatReply::Builder b) {
    b.setInterval(1);
    b.setTimeout(2 * kSilence);
  });
  all[Kind::kLeaseRequest] = make_frame<wire::LeaseReply>(
      [](wire::LeaseReply::Builder b) { b.initMinibatches(1)[0].setAttempt(1); });
  all[Kind::kDoneRequest] =
      make_frame<wire::DoneReply>([](wire::DoneReply::Builder b) { b.setAccepted(true); });
  return all;
}

class BareConnection final : public CrowdLoop::Client {
 public:
  BareConnection(int fd, const std::map<Kind, Frame>& answers) : fd_(fd), answers_(answers) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  void ready(uint32_t) override {
    alignas(FrameHeader) static std::array<std::byte, kBuffer> buffer;
    std::copy(rest_.begin(), rest_.end(), buffer.begin());
    const ssize_t n = ::recv(fd_, buffer.data() + rest_.size(), kBuffer - rest_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      ::close(fd_);
      fd_ = -1;
      return;
    }
    std::span<const std::byte> left(buffer.data(), rest_.size() + static_cast<size_t>(n));
    out_.clear();
    while (left.size() >= sizeof(FrameHeader)) {
      FrameHeader header;
      std::memcpy(&header, left.data(), sizeof header);
      const size_t size = sizeof header + header.words * sizeof(capnp::word);
      if (left.size() < size) break;
      answer(header);
      left = left.subspan(size);
    }
    rest_.assign(left.begin(), left.end());
    if (!out_.empty()) ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
  }
  void due(uint64_t) override {}

 private:
  void answer(const FrameHeader& request) {
    const auto found = answers_.find(static_cast<Kind>(request.kind));
    if (found == answers_.end()) return;
    const size_t begin = out_.size();
    out_.insert(out_.end(), found->second.begin(), found->second.end());
    std::memcpy(out_.data() + begin + offsetof(FrameHeader, correlation), &request.correlation,
                sizeof request.correlation);
  }

  int fd_;
  const std::map<Kind, Frame>& answers_;
  std::vector<std::byte> rest_, out_;
};

class BareListener final : public CrowdLoop::Client {
 public:
  explicit BareListener(CrowdLoop& loop)
      : loop_(loop), fd_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    if (::bind(fd_, address, size) != 0 || ::listen(fd_, SOMAXCONN) != 0 ||
        ::getsockname(fd_, address, &size) != 0)
      fail(ErrorCode::kInternal, "cannot listen: {}", std::strerror(errno));
    loop_.watch(fd_, *this, EPOLLIN, true);
  }
  void ready(uint32_t) override {
    for (int fd = 0; (fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      connections_.push_back(std::make_unique<BareConnection>(fd, answers_));
      loop_.watch(fd, *connections_.back(), EPOLLIN, true);
    }
  }
  void due(uint64_t) override {}
  int port() const { return ntohs(address_.sin_port); }

 private:
  CrowdLoop& loop_;
  const int fd_;
  sockaddr_in address_{};
  const std::map<Kind, Frame> answers_ = answers();
  std::vector<std::unique_ptr<BareConnection>> connections_;
};

}  // namespace

void serve_bare_master() {
  allow_open_files();
  CrowdLoop loop;
  BareListener listener(loop);
  std::thread([&] {
    answer_lines(std::to_string(listener.port()), [](const std::string& line) { return line; });
    end_process(0);
  }).detach();
  for (;;) loop.run(std::chrono::hours(1));
}

}  // namespace embers
