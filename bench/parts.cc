// The processes of embers bench engine, train, wire, storage, control, partition and python; see harness/child.h.
#include "bench/parts.h"
#include "apps/process/runtime.h"
#include "base/errors.h"
#include "bench/control/bare_master.h"
#include "bench/engine/memory.h"
#include "bench/harness/child.h"
#include "bench/models/plain_run.h"
#include "bench/partition/far_worker.h"
#include "bench/python/python.h"
#include "bench/storage/store_client.h"
#include "bench/storage/torch_local.h"
#include "bench/wire/client.h"
#include "bench/wire/owner.h"
#include "bench/wire/sockets.h"

namespace embers {

int bench_part(const std::vector<std::string>& words) {
  const std::string role = words.empty() ? "" : words[0];
  if (role == "owner")
    serve_bench_owner(words.at(1), words.at(2), std::stol(words.at(3)));
  else if (role == "client")
    run_bench_client(words);
  else if (role == "store-client")
    run_store_client(words);
  else if (role == "torch-local")
    serve_torch_local(words);
  else if (role == "sockets")
    serve_sockets(words);
  else if (role == "socket-client")
    run_socket_client(words);
  else if (role == "python-lookup")
    serve_lookup(words.at(1), std::stoul(words.at(2)), std::stoul(words.at(3)));
  else if (role == "plain-train")
    serve_plain_runs();
  else if (role == "engine-fill")
    fill_engine(words.at(1));
  else if (role == "puller")
    serve_far_worker(words.at(1));
  else if (role == "bare-master")
    serve_bare_master();
  else
    fail(ErrorCode::kInvalid, "'bench part' is for the benchmarks' own use");
  end_process(0);
}

}  // namespace embers
