#pragma once

#include <string>
#include <vector>

#include "bench/harness/child.h"

// What a user of Redis or memcached would write for `embers bench storage`: a client that updates, the
// leanest that we know. A value is a row with Adam's slots, under the 8 bytes of its key. Each is read once,
// changed with embers' own Adam kernel, and written back (Redis: MGET and MSET; memcached: multi-get and
// unanswered sets, binary protocol). So nobody else may write meanwhile.
namespace embers {

// A server of this kind on a Unix socket at `path`, without persistence or eviction. `options`: more words of
// its command line.
BenchChild start_store(const std::string& kind, const std::string& path, uint64_t memory_mb,
                       const std::string& options);

// The part "store-client KIND PATH ROWS", which makes the rows before it is ready. Answers "check FIRST" as
// BenchClient::check_rows() does; "train SECONDS THREADS CHUNK uniform|zipf" with the rows a second of this
// many threads, each with a connection and minibatches of its own, and CHUNK keys in a command.
void run_store_client(const std::vector<std::string>& words);

inline constexpr size_t kMostStoreThreads = 4;

}  // namespace embers
