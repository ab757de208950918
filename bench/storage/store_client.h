#pragma once

#include <string>
#include <vector>

#include "bench/harness/child.h"
#include "bench/wire/keys.h"

// What a user of Redis or memcached would write for `embers bench storage`: a client that updates, the
// leanest that we know (store_connection.h). A value is a row with Adam's slots. Each is read once, changed
// with embers' own Adam kernel, and written back. So nobody else may write meanwhile.
namespace embers {

inline constexpr size_t kAdamSlots = 2;                                 // in rows
inline constexpr size_t kStoredNumbers = (1 + kAdamSlots) * kBenchDim;  // of a value: a row and its slots

// A server of this kind on a Unix socket at `path`, without persistence or eviction. `options`: more words of
// its command line.
BenchChild start_store(const std::string& kind, const std::string& path, uint64_t memory_mb,
                       const std::string& options);

// The settings in which benchmarks start such a server: with one thread and with two, and memcached also with
// a hash table that need not grow, and with more requests of a connection in a row.
std::vector<std::string> store_settings(const std::string& kind, int64_t rows);

// The part "store-client KIND PATH ROWS", which makes the rows before it is ready. Answers "check FIRST
// PROTOCOL" as BenchClient::check_rows() does; "lap FIRST N PROTOCOL", of N minibatches from the FIRST-th on,
// as lap(); "replayed" as replayed();
// "train SECONDS THREADS CHUNK PROTOCOL uniform|zipf" with the rows a second of this many threads, each with
// a connection and minibatches of its own, and CHUNK keys in a command.
void run_store_client(const std::vector<std::string>& words);

inline constexpr size_t kMostStoreThreads = 8;

}  // namespace embers
