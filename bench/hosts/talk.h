#pragma once

#include <string>

namespace embers {

// The least that shows what a network does, over one TCP connection after another. Each returns an exit
// status; what goes wrong is printed.

// Listens, says "ready listening", and answers the number of bytes of each connection once all have come:
// until it is ended, or its standard input ends.
int receive(const std::string& host, const std::string& port, bool until_input_ends);
// Sends so many bytes and waits for that answer; prints "ready" and the seconds that it took from the start.
int send(const std::string& host, const std::string& port, size_t bytes);

}  // namespace embers
