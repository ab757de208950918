#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace embers::testing_support {

// A network that fails on command: stands before a server of embers and passes on what clients and server
// send, until it is told otherwise. Faults are those of the connections that there are at that moment, unless
// they are also for those to come. Addresses are "127.0.0.1:PORT" or "unix:/path".
//
// *Thread safety*: all members from any thread; one thread of its own moves the bytes.
class FaultyProxy {
 public:
  enum class Way { kToServer, kToClient, kBoth };

  // Without an address of its own it listens at a free port.
  explicit FaultyProxy(std::string server, const std::string& listen = "127.0.0.1:0")
      : server_(std::move(server)) {
    listener_ = open_socket(listen);
    const Address address = parse(listen);
    if (bind(listener_, address.get(), address.size) != 0 || ::listen(listener_, 64) != 0)
      throw std::runtime_error("a proxy cannot listen on " + listen);
    address_ = listen;
    if (!listen.starts_with("unix:")) {
      sockaddr_in bound{};
      socklen_t size = sizeof bound;
      getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &size);
      address_ = "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
    }
    wake_ = eventfd(0, EFD_NONBLOCK);
    thread_ = std::thread([this] { run(); });
  }
  ~FaultyProxy() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake();
    thread_.join();
    for (const Pair& pair : pairs_) close_both(pair);
    close(listener_);
    close(wake_);
  }
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;

  const std::string& address() const { return address_; }
  // Made so far, through this proxy.
  size_t connections() const {
    const std::lock_guard lock(mutex_);
    return made_;
  }

  // Faults of connections that there are leave alone these: the first `count` that were ever made here, or
  // all later ones. Waits for those to be made.
  void spare_first(size_t count) { spare(0, wait_for(count)); }
  void spare_all_but_first(size_t count) { spare(wait_for(count), SIZE_MAX); }

  // Takes bytes and drops them.
  void swallow(Way way, bool also_new = false) { set(way, Handling::kSwallow, also_new); }
  // Takes no more bytes.
  void stall(Way way, bool also_new = false) { set(way, Handling::kStall, also_new); }
  // The next frame with a body of at least so many bytes is passed on up to the middle of its body; then
  // nothing more.
  void stall_in_frame(Way way, uint32_t bytes = 1) {
    const std::lock_guard lock(mutex_);
    for_each_stream(way, [&](Stream& s) {
      s.handling = Handling::kStallInFrame;
      s.at_least = bytes;
    });
  }
  // Whether a stream has met such a frame.
  bool wait_until_stalled(double seconds = 30) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return stalled_ > 0; });
  }
  // When one end of a connection closes it, the other one is not told.
  void hide_ends(bool also_new = false) {
    const std::lock_guard lock(mutex_);
    for (Pair& pair : pairs_)
      if (!is_spared(pair)) pair.hides_end = true;
    new_hides_end_ |= also_new;
  }
  // Half open: neither bytes nor the end of any connection that there is get through.
  void cut_silently(bool also_new = false) {
    hide_ends(also_new);
    swallow(Way::kBoth, also_new);
  }
  // Passes on everything again: what waited, but not what was swallowed.
  void go_on() {
    {
      const std::lock_guard lock(mutex_);
      for (Pair& pair : pairs_) {
        pair.up.handling = pair.down.handling = Handling::kPassOn;
        pair.hides_end = false;
      }
      new_handling_ = {Handling::kPassOn, Handling::kPassOn};
      new_hides_end_ = false;
      stalled_ = 0;
    }
    wake();
  }

 private:
  enum class Handling { kPassOn, kSwallow, kStall, kStallInFrame };  // of the bytes of one direction
  static constexpr size_t kHeader = 40, kWordsAt = 20;               // of a frame: see actors/frames/frame.h

  struct Address {
    sockaddr_storage storage{};
    socklen_t size = 0;
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  };
  // Bytes of one direction.
  struct Stream {
    int from = -1, to = -1;
    std::string waiting;  // to be passed on
    bool ended = false;   // nothing more comes
    bool broken = false;  // nothing can be passed on
    Handling handling = Handling::kPassOn;
    uint32_t at_least = 0;
    std::string header;  // of the frame under way, as far as it has come
    uint64_t body = 0;   // bytes of it that are still to come
  };
  struct Pair {
    size_t number = 0;  // in the order in which they were made
    Stream up, down;
    bool hides_end = false;
    bool over = false;
  };

  static Address parse(const std::string& text) {
    Address address;
    if (text.starts_with("unix:")) {
      auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
      un->sun_family = AF_UNIX;
      std::strncpy(un->sun_path, text.c_str() + 5, sizeof un->sun_path - 1);
      address.size = sizeof *un;
    } else {
      auto* in = reinterpret_cast<sockaddr_in*>(&address.storage);
      in->sin_family = AF_INET;
      in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      in->sin_port = htons(static_cast<uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))));
      address.size = sizeof *in;
    }
    return address;
  }
  static int open_socket(const std::string& text) {
    return socket(text.starts_with("unix:") ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  }
  static void close_both(const Pair& pair) {
    close(pair.up.from);
    close(pair.up.to);
  }

  void wake() const { eventfd_write(wake_, 1); }

  size_t wait_for(size_t connections) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(30), [&] { return made_ >= connections; }))
      throw std::runtime_error("nobody connects to the proxy at " + address_);
    return connections;
  }
  void spare(size_t begin, size_t end) {
    const std::lock_guard lock(mutex_);
    spared_ = {begin, end};
  }
  bool is_spared(const Pair& pair) const {
    return pair.number >= spared_.first && pair.number < spared_.second;
  }

  void set(Way way, Handling handling, bool also_new) {
    {
      const std::lock_guard lock(mutex_);
      for_each_stream(way, [&](Stream& s) { s.handling = handling; });
      if (also_new && way != Way::kToClient) new_handling_[0] = handling;
      if (also_new && way != Way::kToServer) new_handling_[1] = handling;
    }
    wake();
  }
  template <class F>
  void for_each_stream(Way way, F&& f) {
    for (Pair& pair : pairs_) {
      if (is_spared(pair)) continue;
      if (way != Way::kToClient) f(pair.up);
      if (way != Way::kToServer) f(pair.down);
    }
  }

  void run() {
    for (;;) {
      std::vector<pollfd> polled{{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
      std::vector<Stream*> streams;
      {
        const std::lock_guard lock(mutex_);
        if (over_) return;
        for (Pair& pair : pairs_)
          for (Stream* s : {&pair.up, &pair.down}) {
            if (wants_to_read(*s)) {
              polled.push_back({s->from, POLLIN, 0});
              streams.push_back(s);
            }
            if (wants_to_write(*s)) {
              polled.push_back({s->to, POLLOUT, 0});
              streams.push_back(s);
            }
          }
      }
      poll(polled.data(), polled.size(), -1);
      eventfd_t ignored;
      eventfd_read(wake_, &ignored);
      const std::lock_guard lock(mutex_);
      if (over_) return;
      for (size_t i = 0; i < streams.size(); ++i) {
        const pollfd& p = polled[i + 2];
        if (p.revents == 0) continue;
        p.events == POLLIN ? read(*streams[i]) : write(*streams[i]);
      }
      for (Pair& pair : pairs_) settle(pair);
      pairs_.remove_if([](const Pair& pair) {
        if (pair.over) close_both(pair);
        return pair.over;
      });
      if (polled[1].revents != 0) accept_one();
    }
  }

  static bool wants_to_read(const Stream& s) {
    return !s.ended && s.waiting.empty() && s.handling != Handling::kStall;
  }
  static bool wants_to_write(const Stream& s) {
    return !s.broken && !s.waiting.empty() && s.handling != Handling::kStall;
  }

  void accept_one() {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = open_socket(server_);
    const Address to = parse(server_);
    if (connect(server, to.get(), to.size) != 0) {
      close(client);
      close(server);
      return;
    }
    fcntl(server, F_SETFL, O_NONBLOCK);
    const int now = 1;
    for (const int fd : {client, server}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
    Pair& pair = pairs_.emplace_back();
    pair.up.from = pair.down.to = client;
    pair.up.to = pair.down.from = server;
    pair.up.handling = new_handling_[0];
    pair.down.handling = new_handling_[1];
    pair.hides_end = new_hides_end_;
    pair.number = made_++;
    changed_.notify_all();
  }

  void read(Stream& s) {
    std::array<char, 1 << 16> chunk;
    const ssize_t n = recv(s.from, chunk.data(), chunk.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      s.ended = true;
      return;
    }
    take(s, std::string_view(chunk.data(), static_cast<size_t>(n)));
    write(s);
  }

  // Follows the frames; what comes behind the place of a stall waits.
  void take(Stream& s, std::string_view bytes) {
    size_t pass = bytes.size();
    for (size_t at = 0; at < bytes.size();) {
      if (s.body > 0) {
        const size_t part = std::min<size_t>(s.body, bytes.size() - at);
        s.body -= part;
        at += part;
        continue;
      }
      const size_t part = std::min(kHeader - s.header.size(), bytes.size() - at);
      s.header.append(bytes.substr(at, part));
      at += part;
      if (s.header.size() < kHeader) continue;
      uint32_t words = 0;
      std::memcpy(&words, &s.header[kWordsAt], sizeof words);
      s.body = uint64_t{words} * 8;
      s.header.clear();
      if (s.handling != Handling::kStallInFrame || s.body < s.at_least) continue;
      pass = std::min(bytes.size(), at + s.body / 2);
      s.handling = Handling::kStall;
      stall_later_ = true;
    }
    if (s.handling == Handling::kSwallow || s.broken) return;
    if (std::exchange(stall_later_, false)) {
      s.handling = Handling::kPassOn;
      s.waiting.append(bytes.substr(0, pass));
      while (!s.waiting.empty() && !s.broken) {  // all that comes before the place
        write(s);
        pollfd p{s.to, POLLOUT, 0};
        if (!s.waiting.empty()) poll(&p, 1, 1000);
      }
      s.handling = Handling::kStall;
      s.waiting.append(bytes.substr(pass));
      ++stalled_;
      changed_.notify_all();
      return;
    }
    s.waiting.append(bytes);
  }

  static void write(Stream& s) {
    if (s.handling == Handling::kStall || s.broken || s.waiting.empty()) return;
    const ssize_t n = send(s.to, s.waiting.data(), s.waiting.size(), MSG_NOSIGNAL);
    if (n > 0) s.waiting.erase(0, static_cast<size_t>(n));
    if (n < 0 && errno != EAGAIN && errno != EINTR) s.broken = true;
    if (s.broken) s.waiting.clear();
  }

  // Tells one end that the other one is gone.
  static void settle(Pair& pair) {
    if (pair.hides_end) return;
    for (Stream* s : {&pair.up, &pair.down}) {
      if (s->broken) pair.over = true;
      if (s->ended && s->waiting.empty()) pair.over = true;
    }
  }

  const std::string server_;
  std::string address_;
  int listener_ = -1, wake_ = -1;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::list<Pair> pairs_;
  std::array<Handling, 2> new_handling_{Handling::kPassOn, Handling::kPassOn};  // up, down
  bool new_hides_end_ = false;
  bool stall_later_ = false;                // within take()
  std::pair<size_t, size_t> spared_{0, 0};  // numbers of connections: from, to
  size_t made_ = 0, stalled_ = 0;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace embers::testing_support
