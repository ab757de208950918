// embers bench storage, work item W: minibatches of 4096 distinct keys of 10 M, rows of 64 float32; pull,
// then push of gradients that the server applies with Adam. Client and server processes on this host, over a
// Unix socket. embers takes turns with each peer, both with all rows in memory; one peer is there at a time.
// Keys come in a random order, each as often as the others (what targets speak of), or by Zipf's law.
//
//   embers      an owner process; a client that makes the worker's calls (plan, route, take rows, push), with
//               as many minibatches under way as a worker has with a training.prefetch of 2, the default, or
//               3
//   redis, memcached   a client that updates (store_client.h), which reads each row once; one to four
//               connections, 128 to 4096 keys in a command, memcached's binary and meta protocol; servers
//               with one thread and with two
//   torch rpc   torch.distributed.rpc; 1 to 4 minibatches under way, 1 or 2 threads
//   torch local one process, 1 or 2 threads
// Both of torch with SparseAdam, and with a row-wise lazy Adam on gathered rows; the local one also in C++,
// with Adam in one loop. Every configuration of every side is tried once under both scheduling policies; the
// best one of each side goes on. Before that, all sides compute a few steps of Adam on the same rows, then a
// lap of minibatches (checked_rows.h), and what they have then is compared. Afterwards, rows that were
// trained on while it was timed are compared with a replay of all steps (replay.h). In embers' turns the
// peer's processes are stopped: those of torch.distributed.rpc poll for messages without a pause. embers' own
// sleep while they have nothing to do. Beside it: embers' actors in one process, without a socket; and
// blocking sockets that move the bytes of a pull and a push, and nothing else.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/cpus.h"
#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/compare.h"
#include "bench/harness/processes.h"
#include "bench/storage/store_client.h"
#include "bench/storage/store_connection.h"
#include "bench/storage/torch_script.h"
#include "bench/wire/checked_rows.h"
#include "bench/wire/keys.h"
#include "bench/wire/replay.h"
#include "bench/wire/sockets.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kRowBytes = 3 * kBenchDim * sizeof(float);
constexpr double kRounding = 1e-5;  // torch's Adam divides where ours multiplies
// For torch: what is large lies in huge pages, with glibc's malloc and with the one that embers has.
constexpr char kGlibc[] = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";

constexpr double kWayRounding = 5e-5;  // of way_of(): one of 4096 rows that was left out changes it by more

struct Length {
  double choosing, seconds;  // of a try, before a configuration is chosen and then
  size_t tries, rounds, zipf_rounds;
};
const Length kFull{0.3, 1, 1, 9, 5}, kQuick{0.1, 0.1, 1, 3, 3};

struct Item {
  int64_t rows;
  Length length;
  // Connections of one client may have the same minibatch at once, one lap apart.
  bool is_small() const { return static_cast<size_t>(rows) < 2 * kMostStoreThreads * kBenchKeys; }
  // There are minibatches for two laps.
  size_t lap() const { return std::min(kLapMinibatches, static_cast<size_t>(rows) / kBenchKeys / 2); }
};

// The last one ends first: a server may wait for its client's farewell.
struct Processes : std::vector<BenchChild> {
  Processes() = default;
  Processes(Processes&&) = default;
  ~Processes() { end_all(); }
  void end_all() {
    while (!empty()) pop_back();
  }
};

// A side: processes that live together, and what is asked of the client.
struct Side {
  std::string name;
  Processes processes;  // the client is the last one
  std::vector<std::string> configurations;
  // The question in this configuration, for a try that takes so long, and what to make of the answer.
  std::function<std::string(const std::string& configuration, bool zipf, double seconds)> question;
  std::function<double(double answer, double seconds)> seconds_per_row;
  std::vector<std::vector<float>> rows, ways;  // see checked_rows.h; for each protocol
  bool stops = false;                          // between its tries
  bool is_store = false;  // whose connections may write the same row at once, by Zipf's law

  BenchChild& client() { return processes.back(); }
  double cpu_seconds() const {
    double seconds = 0;
    for (const BenchChild& process : processes) seconds += process.cpu_seconds();
    return seconds;
  }
  void set(Policy policy) const {
    for (const BenchChild& process : processes) set_policy(process.processes(), policy);
  }
  void let_run(bool may_run) const {
    for (const BenchChild& process : processes) embers::let_run(process.processes(), may_run);
  }
  std::string answer(const std::string& line) {
    if (stops) let_run(true);
    std::string answered = client().ask(line);
    if (stops) let_run(false);
    return answered;
  }
  Cost run(const std::string& configuration, bool zipf, double seconds) {
    if (stops) let_run(true);
    const double cpu = cpu_seconds();
    const auto begin = BenchClock::now();
    const double answer = std::stod(client().ask(question(configuration, zipf, seconds)));
    const double took = seconds_per_row(answer, seconds);
    // CPU of a row: as much of the clock's time as of the work.
    const Cost cost{took, (cpu_seconds() - cpu) / seconds_since(begin) * took};
    if (stops) let_run(false);
    return cost;
  }
};

// Looks at rows that were trained on in all tries so far. Returns the share of them that are not what they
// should be, and how much of their ways is missing; fails if there are any where there may be none.
Json replayed(Side& side, bool may_lose) {
  const std::vector<float> found = numbers_in(side.answer("replayed"));
  if (found.size() != 2)
    fail(ErrorCode::kInternal, "{} did not say what its rows are after training", side.name);
  if (!may_lose && found[0] != 0)
    fail(
        ErrorCode::kInternal,
        "{}: {:.4f} of the rows that were looked at are not where the same steps bring them; {:.4f} of their "
        "ways are missing",
        side.name, found[0], found[1]);
  return {{"rows", found[0]}, {"way", found[1]}};
}

void add(Contest& contest, Side& side, const double& seconds, bool zipf = false) {
  for (const std::string& configuration : side.configurations)
    add_with_policies(
        contest, side.name, configuration, [&side](Policy policy) { side.set(policy); },
        [=, &side, &seconds] { return side.run(configuration, zipf, seconds); });
}

// While it lives, the side's processes run only in its turns.
class StoppedBetween {
 public:
  explicit StoppedBetween(Side& side) : side_(side) { set(true); }
  ~StoppedBetween() { set(false); }
  StoppedBetween(const StoppedBetween&) = delete;
  StoppedBetween& operator=(const StoppedBetween&) = delete;

 private:
  void set(bool stops) {
    side_.stops = stops;
    side_.let_run(!stops);
  }
  Side& side_;
};

std::string unix_path(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("embers-bench-{}-{}", ::getpid(), name))
      .string();
}

// --- sides -----------------------------------------------------------------------------------------------

// With its server in a process of its own, or in the client's.
Side ours(const std::string& name, const Item& work, bool alone) {
  Side side{name, {}, {"3 minibatches under way", "4 minibatches under way"}, {}, {}, {}, {}};
  const std::string rows = std::to_string(work.rows);
  std::string address = "local";
  if (!alone) {
    side.processes.push_back(BenchChild::part_of_embers(
        {"owner", fmt::format("unix:@embers-bench-{}", ::getpid()), "adam", rows}));
    address = side.client().ready();
  }
  side.processes.push_back(BenchChild::part_of_embers({"client", address, "adam", rows}));
  side.rows.push_back(numbers_in(side.client().ask(fmt::format("check-rows {}", work.rows))));
  side.ways.push_back(numbers_in(side.client().ask(fmt::format("lap {} 3", work.lap()))));
  const auto minibatches = [](double seconds) {
    return static_cast<size_t>(seconds * 1500);  // at 6 M rows a second
  };
  side.question = [=](const std::string& configuration, bool zipf, double seconds) {
    return fmt::format("train {} {} {}", minibatches(seconds), configuration[0], zipf ? "zipf" : "");
  };
  side.seconds_per_row = [=](double took, double seconds) {
    return took / static_cast<double>(minibatches(seconds) * kBenchKeys);
  };
  return side;
}

Side sockets_only() {
  const size_t keys = kBenchKeys, rows = kBenchKeys * kBenchDim / 2;  // words
  const std::string there = std::to_string(2 * keys + rows), back = std::to_string(rows);
  const std::string address = fmt::format("unix:@embers-bench-{}-sockets", ::getpid());
  Side side{"limit_sockets_only", {}, {"2 trips under way"}, {}, {}, {}, {}};
  side.processes.push_back(BenchChild::part({"sockets", "blocking", address, there, back, "2"}));
  side.processes.push_back(
      BenchChild::part({"socket-client", "blocking", side.client().ready(), there, back, "2"}));
  side.client().ask("connect 4194304 65536");
  const auto trips = [](double seconds) { return static_cast<size_t>(seconds * 1000); };
  side.question = [=](const std::string&, bool, double seconds) {
    return fmt::format("pull {}", trips(seconds));
  };
  side.seconds_per_row = [=](double took, double seconds) {
    return took / static_cast<double>(trips(seconds) * kBenchKeys);
  };
  return side;
}

// Questions of clients that work for a time, and answer with a rate.
std::string timed(const std::string& configuration, bool zipf, double seconds) {
  return fmt::format("train {} {} {}", seconds, configuration, zipf ? "zipf" : "uniform");
}
double of_rate(double rows_per_second, double) { return 1 / rows_per_second; }

Side store(const std::string& kind, const std::string& options, const Item& work) {
  const std::string path = unix_path(kind);
  const uint64_t mb = (static_cast<uint64_t>(work.rows) * (kRowBytes + 256) >> 20) + 256;
  Side side{kind, {}, {}, timed, of_rate, {}, {}};
  side.is_store = true;
  for (const char* const connections : {"1", "2", "4", "8"})  // Redis has io threads for four and more
    for (const char* const chunk : {"128", "512", "4096"})
      for (const std::string_view protocol : store_protocols(kind))
        side.configurations.push_back(fmt::format("{} {} {}", connections, chunk, protocol));
  side.processes.push_back(start_store(kind, path, mb, options));
  side.processes.push_back(BenchChild::part({"store-client", kind, path, std::to_string(work.rows)}));
  size_t first = 0;  // minibatch: each protocol has a lap of its own
  for (const std::string_view protocol : store_protocols(kind)) {
    side.rows.push_back(numbers_in(side.client().ask(fmt::format("check {} {}", work.rows, protocol))));
    side.ways.push_back(
        numbers_in(side.client().ask(fmt::format("lap {} {} {}", first, work.lap(), protocol))));
    first += work.lap();
  }
  return side;
}

void check(Side& side, const Item& work) {
  side.rows.push_back(numbers_in(side.client().ask(fmt::format("check {}", work.rows))));
  side.ways.push_back(numbers_in(side.client().ask(fmt::format("lap {}", work.lap()))));
}

// Which malloc: a setup's name, empty for glibc's. Sockets: torch.distributed.rpc moves bytes through
// sockets, which it waits for, not through memory, where it polls.
Side torch(const std::string& kind, const std::string& malloc, bool sockets, const Item& work) {
  Side side{"torch_" + kind, {}, {}, timed, of_rate, {}, {}};
  std::vector<std::string> words{"/usr/bin/env"};
  if (malloc.empty()) {
    words.emplace_back(kGlibc);
  } else {
    for (const std::string& setting : mimalloc_environment()) words.push_back(setting);
  }
  for (const std::string& word : {std::string("/usr/bin/python3"), std::string("-c"),
                                  std::string(kTorchScript), kind, std::to_string(work.rows)})
    words.push_back(word);
  const auto start = [&](const std::string& rank) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {rank, std::to_string(20000 + ::getpid() % 20000), sockets ? "sockets" : ""});
    side.processes.push_back(BenchChild(all));
  };
  const bool remote = kind == "rpc";
  if (remote) start("1");
  start("0");
  for (const char* const adam : {"sparse", "gathered"})
    for (const char* const threads : {"1", "2"})
      for (const char* const depth : {"1", "2", "3", "4"})
        if (remote || depth == std::string("1"))
          side.configurations.push_back(fmt::format("{} {} {}", depth, threads, adam));
  check(side, work);
  return side;
}

Side torch_fused(const Item& work) {
  Side side{"torch_local", {}, {}, timed, of_rate, {}, {}};
  for (const char* const threads : {"1", "2"})
    for (const char* const pull : {"index_select", "prefetching"})
      side.configurations.push_back(fmt::format("1 {} {}", threads, pull));
  side.processes.push_back(BenchChild::part({"torch-local", std::to_string(work.rows)}));
  check(side, work);
  return side;
}

// A peer that may be set up in several ways, of which the fastest counts.
struct Peer {
  std::string name;
  double wanted;
  std::vector<std::pair<std::string, std::function<Side(const Item&)>>> setups;
};

std::vector<Peer> peers(int64_t rows) {
  const auto of_store = [rows](const std::string& kind) {
    Peer peer{kind, kind == "redis" ? 7. : 9., {}};
    for (const std::string& options : store_settings(kind, rows))
      peer.setups.emplace_back(options, [=](const Item& work) { return store(kind, options, work); });
    return peer;
  };
  const auto of_torch = [](const std::string& kind) {
    Peer peer{"torch_" + kind, kind == "rpc" ? 5 : 1.5, {}};
    for (const std::string malloc : {"", "mimalloc"})
      peer.setups.emplace_back(malloc, [=](const Item& work) { return torch(kind, malloc, false, work); });
    return peer;
  };
  Peer rpc = of_torch("rpc"), local = of_torch("local");
  rpc.setups.emplace_back("mimalloc sockets",
                          [](const Item& work) { return torch("rpc", "mimalloc", true, work); });
  local.setups.emplace_back("fused", torch_fused);
  return {of_store("redis"), of_store("memcached"), rpc, local};
}

// --- contests --------------------------------------------------------------------------------------------

struct Result {
  Json report;
  Estimate speed;  // how many times as fast as the other ours is
  Estimate limit;  // of that: were all cores busy all the time with what our rows cost
};

Result compare(Side& mine, Side& other, const Item& work, bool zipf = false) {
  Contest contest;
  double seconds = work.length.choosing;
  add(contest, mine, seconds, zipf);
  add(contest, other, seconds, zipf);
  contest.warm_up();
  contest.choose(work.length.tries);
  seconds = work.length.seconds;
  contest.measure(zipf ? work.length.zipf_rounds : work.length.rounds);
  const double at_best = static_cast<double>(allowed_cpus().size()) * contest.seconds(other.name).value /
                         contest.cpu_seconds(mine.name).value;
  Result result{{{"sides", contest.json()}}, contest.speed(mine.name, other.name), at_best};
  result.report["ratio"] = result.speed.value;
  result.report["limit"] = at_best;
  for (Side* const side : {&mine, &other}) {
    if (!side->rows.empty())
      result.report["lost"][side->name] = replayed(*side, side->is_store && (zipf || work.is_small()));
    const double rate = 1 / contest.seconds(side->name).value;
    result.report["rows_per_s"][side->name] = rate;
    fmt::print("  {:<8} {:<22} {:8.3f}   {:6.2f} us CPU   {}\n", zipf ? "zipf" : "uniform", side->name,
               rate / 1e6, contest.cpu_seconds(side->name).value * 1e6, contest.configuration(side->name));
  }
  std::fflush(stdout);
  return result;
}

}  // namespace

int bench_storage(const BenchOptions& options) {
  Json report = begin_report("storage", options, sizes_of(options));
  const Item work{options.quick ? std::min<int64_t>(options.rows, 500'000) : options.rows,
                  options.quick ? kQuick : kFull};
  const auto rows = static_cast<uint64_t>(work.rows);
  need_memory(rows * (2 * kRowBytes + 512), "embers beside a peer", "give fewer --rows");
  report["rows"] = work.rows;
  report["keys"] = kBenchKeys;
  report["dim"] = kBenchDim;
  fmt::print("million rows/s, pulled and pushed, of {} rows; CPU of a row, all processes of a side\n",
             work.rows);
  report["targets"] = Json::array();
  Side mine = ours("embers", work, false);
  for (const Peer& peer : peers(work.rows)) {
    std::vector<Estimate> zipf;  // of each setup
    std::optional<Result> worst;
    for (const auto& [setup, make] : peer.setups) {
      fmt::print("{} {}\n", peer.name, setup);
      std::optional<Side> other;
      try {
        other.emplace(make(work));
      } catch (const Error& e) {
        report["left_out"][peer.name][setup] = e.what();
        fmt::print("  left out: {}\n", e.what());
        continue;
      }
      for (const std::vector<float>& theirs : other->rows)
        check_equal("rows after a few steps of Adam", {mine.name, mine.rows.front()}, {other->name, theirs},
                    kRounding);
      for (const std::vector<float>& theirs : other->ways)
        check_equal("rows of minibatches after a lap", {mine.name, mine.ways.front()}, {other->name, theirs},
                    kWayRounding);
      const StoppedBetween stopped(*other);
      const Result even = compare(mine, *other, work), drawn = compare(mine, *other, work, true);
      report["peers"][peer.name][setup] = {{"uniform", even.report}, {"zipf", drawn.report}};
      if (!worst || even.speed.value < worst->speed.value) worst = even;
      zipf.push_back(drawn.speed);
    }
    if (!worst) continue;
    report["targets"].push_back(target("storage.vs_" + peer.name, worst->speed, peer.wanted, worst->limit));
    report["zipf"][peer.name] = least(zipf).value;
  }
  {
    fmt::print("limits\n");
    Side sockets = sockets_only();
    report["limit_sockets_only"] = compare(mine, sockets, work).report;
  }
  mine.processes.end_all();
  fmt::print("without sockets\n");
  Side alone = ours("limit_without_sockets", work, true);
  Contest contest;
  add(contest, alone, work.length.seconds);
  contest.warm_up();
  contest.measure(work.length.rounds);
  replayed(alone, false);
  report["limit_without_sockets"] = {{"sides", contest.json()},
                                     {"rows_per_s", 1 / contest.seconds(alone.name).value}};
  fmt::print("  {:<8} {:<22} {:8.3f}\n", "uniform", alone.name, 1e-6 / contest.seconds(alone.name).value);
  return end_report(report, options);
}

}  // namespace embers
