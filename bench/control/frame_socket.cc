#include "bench/control/frame_socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/random_number.h"

namespace embers {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;  // what one call reads at most, and so the largest frame

// One for all sockets of the thread: what is left of a frame after a call is copied.
std::span<std::byte> buffer() {
  alignas(capnp::word) static thread_local std::array<std::byte, kBuffer> bytes;
  return bytes;
}

[[noreturn]] void broken(const std::string& why) { fail(ErrorCode::kUnavailable, "{}", why); }

}  // namespace

Error read_error(const FrameSocket::Frame& frame) {
  std::optional<Error> error;
  read_root<wire::ErrorReply>(
      frame, [&](auto root) { error.emplace(error_code(root.getCode()), root.getMessage().cStr()); });
  return *error;
}

void FrameSocket::connect(const sockaddr_in& to, wire::Role role, const Secret& secret) {
  close();
  secret_ = &secret;
  hello_ = make_message<wire::Hello>([&](wire::Hello::Builder b) {
    b.setProtocol(kProtocol);
    b.setNumberFormat(kNumberFormat);
    b.setRole(role);
    b.setLink(random_number());
    if (secret) b.setNonce(as_data(make_nonce()));
  });
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) fail(ErrorCode::kInternal, "no more sockets: {}", std::strerror(errno));
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS)
    broken(std::strerror(errno));
}

void FrameSocket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  said_hello_ = false;
  silence_ = 0;
  received_ = 0;
  unsent_.clear();
  rest_.clear();
}

void FrameSocket::send(FrameHeader header, kj::ArrayPtr<const capnp::word> words) {
  if (fd_ < 0) return;
  header.words = header.total = static_cast<uint32_t>(words.size());
  const std::array<std::span<const std::byte>, 2> parts{
      std::as_bytes(std::span(&header, 1)),
      std::span(reinterpret_cast<const std::byte*>(words.begin()), words.size() * sizeof(capnp::word))};
  size_t sent = 0;
  if (unsent_.empty()) {
    std::array<iovec, 2> pieces;
    for (size_t i = 0; i < 2; ++i) pieces[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t n = ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    sent = n > 0 ? static_cast<size_t>(n) : 0;  // what is wrong with it shows when it is read
  }
  for (const auto part : parts) {
    const size_t gone = std::min(sent, part.size());
    sent -= gone;
    unsent_.insert(unsent_.end(), part.begin() + gone, part.end());
  }
}

void FrameSocket::writable() {
  if (!said_hello_) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
      broken(std::strerror(error));
    said_hello_ = true;
    return send(hello_, 0);
  }
  const ssize_t n = ::send(fd_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n > 0) unsent_.erase(unsent_.begin(), unsent_.begin() + n);
}

void FrameSocket::readable(const std::function<void(const Frame&)>& on_frame) {
  const std::span<std::byte> all = buffer();
  std::copy(rest_.begin(), rest_.end(), all.begin());
  const ssize_t n = ::recv(fd_, all.data() + rest_.size(), all.size() - rest_.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) broken(n == 0 ? "the connection was closed by the peer" : std::strerror(errno));
  received_ += static_cast<size_t>(n);
  std::span<const std::byte> left = all.first(rest_.size() + static_cast<size_t>(n));
  while (left.size() >= sizeof(FrameHeader)) {
    const auto* const header = reinterpret_cast<const FrameHeader*>(left.data());
    const size_t size = sizeof *header + header->words * sizeof(capnp::word);
    if (header->magic != FrameHeader::kMagic || header->chunks != 1 || size > kBuffer)
      fail(ErrorCode::kBadFrame, "a frame of {} words in {} chunks", header->total, header->chunks);
    if (left.size() < size) break;
    const Frame frame{header, {reinterpret_cast<const capnp::word*>(header + 1), header->words}};
    welcomed() ? on_frame(frame) : shake_hands(frame);
    if (fd_ < 0) return;  // closed meanwhile
    left = left.subspan(size);
  }
  rest_.assign(left.begin(), left.end());
}

void FrameSocket::shake_hands(const Frame& frame) {
  if (frame.header->flags & FrameHeader::kError) throw read_error(frame);
  if (frame.kind() == Kind::kWelcome)
    return read_root<wire::Welcome>(frame, [&](auto root) { silence_ = root.getSilence(); });
  if (frame.kind() != Kind::kChallenge) fail(ErrorCode::kBadFrame, "no welcome came");
  const std::span challenge(reinterpret_cast<const std::byte*>(frame.words.begin()),
                            frame.words.size() * sizeof(capnp::word));
  const Mac mac = proof(*secret_, Prover::kClient, hello_.words().bytes(), challenge);
  send(make_message<wire::Proof>([&](wire::Proof::Builder b) { b.setMac(as_data(mac)); }), 0);
}

}  // namespace embers
