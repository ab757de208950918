// The processes of embers bench engine, wire, storage, control and python; see harness/child.h.
#include <fmt/ranges.h>

#include <sstream>

#include "apps/process/runtime.h"
#include "base/errors.h"
#include "bench/control/bare_master.h"
#include "bench/engine/memory.h"
#include "bench/harness/child.h"
#include "bench/parts.h"
#include "bench/python/python.h"
#include "bench/storage/store_client.h"
#include "bench/wire/owner.h"
#include "bench/wire/sockets.h"

namespace embers {
namespace {

using Arguments = std::vector<std::string>;

TripSize size_of(const Arguments& words) { return {std::stoul(words.at(3)), std::stoul(words.at(4))}; }

// "client ADDRESS|local ROWS [sockets]", the last where nothing travels in shared memory: answers "pull N"
// with its seconds and latencies in ms, "train SECONDS DEPTH" with rows a second.
void run_client(const Arguments& words) {
  const bool shares = words.size() < 4 || words[3] != "sockets";
  BenchClient client(words.at(1) == "local" ? "" : words.at(1), "adam", std::stol(words.at(2)), shares);
  answer_lines("", [&](const std::string& line) {
    std::istringstream in(line);
    std::string what;
    double count = 0;
    size_t depth = 0;
    in >> what >> count >> depth;
    if (what == "train") return fmt::format("{}", client.train(count, depth));
    const auto pulls = client.pull(static_cast<size_t>(count));
    return fmt::format("{} {:.4f}", pulls.seconds, fmt::join(pulls.latencies.all(), " "));
  });
}

// "socket-client KIND ADDRESS REQUEST_WORDS REPLY_WORDS OUTSTANDING": answers N with the seconds of N trips.
void run_socket_client(const Arguments& words) {
  const auto client = connect_sockets(words.at(1), words.at(2), size_of(words), std::stoul(words.at(5)));
  answer_lines("",
               [&](const std::string& line) { return fmt::format("{}", client->trips(std::stoul(line))); });
}

}  // namespace

int bench_part(const Arguments& words) {
  const std::string role = words.empty() ? "" : words[0];
  const std::string kind = words.size() > 1 ? words[1] : "";
  // As the processes of a job do. So do the peers that gain from it; a bare program with one thread would
  // lose.
  if (role == "owner" || role == "client" || kind == "rows2") run_as_batch();
  if (role == "owner")
    serve_bench_owner(words.at(1), words.at(2), std::stol(words.at(3)));
  else if (role == "client")
    run_client(words);
  else if (role == "store-client")
    run_store_client(words);
  else if (role == "sockets")
    serve_sockets(words.at(1), words.at(2), size_of(words));
  else if (role == "socket-client")
    run_socket_client(words);
  else if (role == "python-lookup")
    serve_lookup(words.at(1), std::stoul(words.at(2)), std::stoul(words.at(3)));
  else if (role == "engine-fill")
    fill_engine(words.at(1));
  else if (role == "bare-master")
    serve_bare_master();
  else
    fail(ErrorCode::kInvalid, "'bench part' is for the benchmarks' own use");
  end_process(0);
}

}  // namespace embers
