// Look-ups of 4096 keys x 64 floats in a running job, by a reader in Python and one in C++ in turns.
//
// A worker in Python has made the rows and keeps the job running; master, shard, worker and both readers are
// processes of their own. Both look up the same keys in the same order, and must read the same rows. The C++
// reader writes into memory that it has, the Python one gets a new array, as `table.lookup(keys)` gives it.
//
//   python.lookup_overhead   median look-up in Python over that in C++
#include <bit>
#include <fstream>
#include <map>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/harness/processes.h"
#include "bench/models/job.h"
#include "bench/python/peers.h"
#include "bench/python/python.h"
#include "client/session.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kKeys = 4096, kDim = 64, kChunks = 32;

}  // namespace

void serve_lookup(const std::string& master, size_t chunks, size_t keys) {
  client::Options options;
  options.master = master;
  auto session = client::Session::join_as_reader(options);
  std::vector<std::vector<int64_t>> lists(chunks);
  for (size_t c = 0; c < chunks; ++c)
    for (size_t k = 0; k < keys; ++k) lists[c].push_back(static_cast<int64_t>(c * keys + k));
  std::vector<float> rows(keys * session.table("rows").dim);
  answer_lines("", [&](const std::string& line) {
    if (line == "check") {
      uint64_t sum = 0, place = 0;
      for (const auto& keys_of_chunk : lists) {
        session.lookup("rows", keys_of_chunk, rows);
        for (const float x : rows) sum += std::bit_cast<uint32_t>(x) * ++place;
      }
      return std::to_string(sum);
    }
    std::istringstream in(line);
    size_t calls = 0, first = 0, step = 0;
    in >> calls >> first >> step;
    Json answer{{"seconds", Json::array()}};
    double sum = 0;
    for (size_t i = 0; i < calls; ++i) {
      const auto begin = BenchClock::now();
      session.lookup("rows", lists[(first + i * step) % chunks], rows);
      answer["seconds"].push_back(seconds_since(begin));
      sum += static_cast<double>(rows.front()) + static_cast<double>(rows.back());
    }
    answer["sum"] = sum;
    return answer.dump();
  });
  session.close();
}

void measure_lookup(const BenchOptions& options, const std::string& dir, Json& report) {
  const int rounds = options.quick ? 5 : 21, calls = options.quick ? 50 : 200;
  const std::string file = dir + "/rows.toml";
  std::ofstream(file) << "[job]\nname = \"bench\"\n[optimizer]\nname = \"sgd\"\nlearning_rate = 0.1\n";
  OpenJob job(file, dir);
  const std::string chunks = std::to_string(kChunks), keys = std::to_string(kKeys);
  BenchChild holder =
      run_python(dir, "lookup.py", {"hold", chunks, keys, std::to_string(kDim)}, 1, job.address());
  BenchChild python = run_python(dir, "lookup.py", {"read", chunks, keys}, 1, job.address());
  BenchChild cpp = BenchChild::part({"python-lookup", job.address(), chunks, keys});
  if (const std::string ours = python.ask("check"), theirs = cpp.ask("check"); ours != theirs)
    fail(ErrorCode::kInternal, "Python has read other rows than C++: their sums are {} and {}", ours, theirs);
  // Look-ups of a round are those of the round with the same number of the other side.
  std::map<std::string, std::vector<double>> sums;
  Contest contest;
  const auto add = [&](const std::string& side, BenchChild& reader) {
    for (const Policy policy : kPolicies)
      contest.add(side, name(policy), [&, side, policy] {
        set_policy(reader.processes(), policy);
        auto& of_side = sums[fmt::format("{}, {}", side, name(policy))];
        const Json answer = Json::parse(reader.ask(fmt::format("{} {} 7", calls, of_side.size())));
        of_side.push_back(answer["sum"]);
        return Cost{median(answer["seconds"])};
      });
  };
  add("python", python);
  add("cpp", cpp);
  contest.warm_up();
  contest.measure(rounds);
  for (const auto& [side, of_side] : sums)
    if (of_side != sums.begin()->second)
      fail(ErrorCode::kInternal, "{} has read other rows than {}", side, sums.begin()->first);
  holder.tell("");
  const Json sides = contest.json();
  const Estimate ratio = contest.speed("cpp", "python");
  report["lookup"] = {{"keys", kKeys},
                      {"dim", kDim},
                      {"python_seconds", sides["python"]["seconds"]},
                      {"cpp_seconds", sides["cpp"]["seconds"]},
                      {"ratio", {{"median", ratio.value}, {"low", ratio.low}, {"high", ratio.high}}},
                      {"sides", sides}};
  fmt::print("lookup of {} x {}: {:.3f} ms in Python, {:.3f} ms in C++\n", kKeys, kDim,
             1e3 * contest.seconds("python").value, 1e3 * contest.seconds("cpp").value);
  report["targets"].push_back(target_at_most("python.lookup_overhead", ratio, 1.15));
}

}  // namespace embers
