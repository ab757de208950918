#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace embers {

// A client's end of a connection to a server on a Unix socket, which sends and receives as much as it can at
// a time. While the server does not take what is to be sent, its answers are received, so that neither end
// waits for the other to read. Not thread-safe. kUnavailable when nobody listens at `path`, when the
// connection ends, and when nothing moves for a minute.
class StoreSocket {
 public:
  explicit StoreSocket(const std::string& path);
  ~StoreSocket();
  StoreSocket(const StoreSocket&) = delete;
  StoreSocket& operator=(const StoreSocket&) = delete;

  // Adds to what is to be sent.
  void put(std::string_view bytes) { unsent_.insert(unsent_.end(), bytes.begin(), bytes.end()); }
  void send_some();  // without waiting
  void send_all();

  // The next bytes of the answers, or those of the next line, without its "\r\n". Waits for them. They stay
  // where they are until the next call of a member.
  std::string_view take(size_t bytes);
  std::string_view take_line();

 private:
  void wait();  // until something was sent or received
  bool receive();

  const int fd_;
  std::vector<char> unsent_, received_;
  size_t sent_ = 0;             // of unsent_
  size_t begin_ = 0, end_ = 0;  // of received_ that nobody has taken
};

}  // namespace embers
