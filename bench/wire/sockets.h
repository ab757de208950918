#pragma once

#include <memory>
#include <string>

// What the wire is compared with: two programs that move the frames of pulls, and nothing else. A client
// sends requests for rows as a worker's proxy would, with `outstanding` of them on their way; a server reads
// each and answers under its correlation. Requests and replies are made once, as many as embers' side has
// minibatches, and sent in turn. Both read into one buffer again and again, check the header's magic number
// and size, and look at no byte of the payload.
//   asio      one io_context and thread on each side, asynchronous; header and payload in one gather write
//   blocking  one thread on each side; send and recv
// and two servers for asio's client that do what no server of rows can avoid, but no more: for each request
// they copy as many rows as embers' side from random known places of as many into the reply.
//   rows      asio's server, copying before it writes
//   rows2     copying on a second thread, so that it goes on while the first one writes
namespace embers {

// Bytes behind the headers.
struct TripSize {
  size_t request_words, reply_words;
};

// The part "sockets KIND ADDRESS REQUEST_WORDS REPLY_WORDS": serves one connection after another
// until its input ends; ready with its address.
void serve_sockets(const std::string& kind, const std::string& address, TripSize size);

class SocketClient {
 public:
  virtual ~SocketClient() = default;
  // Makes this many trips; returns the seconds they took.
  virtual double trips(size_t count) = 0;
};
std::unique_ptr<SocketClient> connect_sockets(const std::string& kind, const std::string& address,
                                              TripSize size, size_t outstanding);

}  // namespace embers
