#pragma once

#include <string>
#include <vector>

#include "bench/harness/child.h"

// What a user of Redis or memcached would write for `embers bench storage`: a client that updates. A value is
// a row with Adam's slots, under the key's decimal digits. A pull is one multi-get; a push is another (others
// may have changed the rows since) and one pipelined write (Redis: MSET; memcached: unanswered sets, binary
// protocol) of what the client made of them with embers' own Adam kernel.
namespace embers {

// A server of this kind on a Unix socket at `path`, without persistence or eviction.
BenchChild start_store(const std::string& kind, const std::string& path, uint64_t memory_mb);

// The part "store-client KIND PATH ROWS", which makes the rows before it is ready: answers "SECONDS THREADS"
// with the rows a second of this many threads, each with a connection and minibatches of its own.
void run_store_client(const std::vector<std::string>& words);

}  // namespace embers
