// Look-ups of 4096 keys x 64 floats in a running job, by a reader in Python and one in C++ in turns.
//
// A worker in Python has made the rows and keeps the job running; master, shard, worker and both readers are
// processes of their own. Both look up the same keys in the same order, and must read the same rows. The C++
// reader writes into memory that it has, the Python one gets a new array, as `table.lookup(keys)` gives it.
//
//   python.lookup_overhead   median look-up in Python over that in C++; the median over rounds
#include <fstream>

#include "base/errors.h"
#include "bench/harness/bench.h"
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
  std::vector<double> ratios, in_python, in_cpp;
  for (int round = 0; round < rounds; ++round) {
    const std::string line = fmt::format("{} {} 7", calls, round);
    Json answers[2];
    for (const bool first : {true, false})
      answers[first == (round % 2 == 0)] = Json::parse((first == (round % 2 == 0) ? python : cpp).ask(line));
    const Json &of_python = answers[1], &of_cpp = answers[0];
    if (of_python["sum"] != of_cpp["sum"])
      fail(ErrorCode::kInternal, "Python has read other rows than C++: sums are {} and {}",
           of_python["sum"].dump(), of_cpp["sum"].dump());
    in_python.push_back(median_of(of_python["seconds"]));
    in_cpp.push_back(median_of(of_cpp["seconds"]));
    ratios.push_back(in_python.back() / in_cpp.back());
  }
  holder.tell("");
  report["lookup"] = {{"keys", kKeys},
                      {"dim", kDim},
                      {"python_seconds", with_range(in_python)},
                      {"cpp_seconds", with_range(in_cpp)},
                      {"ratio", with_range(ratios)}};
  fmt::print("lookup of {} x {}: {:.3f} ms in Python, {:.3f} ms in C++\n", kKeys, kDim,
             1e3 * median_of(in_python), 1e3 * median_of(in_cpp));
  report["targets"].push_back(target_at_most("python.lookup_overhead", median_of(ratios), 1.15));
}

}  // namespace embers
