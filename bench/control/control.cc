// embers bench control: one master, as `embers master` runs it in a process of its own, with 100 owners and
// 10 to 4000 workers that are simulated: real sockets (TCP over the loopback) with the real handshake, the
// job's secret and the real messages, but no model and no rows. All of them run in this process (crowd.h,
// owners.h).
//
// There is a master for each number of workers, and each round measures all of them in turns:
//   always   every worker asks for its next lease as soon as it is done with the last one, so that the master
//            has as much to do as it can take
//   paced    all workers together do so many leases a second, each at moments of its own
// A lease is a LeaseRequest with one minibatch in its answer, and the DoneRequest of that minibatch: two
// round trips. Meanwhile all members beat once a second and wait for orders, as real ones do.
//
// In their turns, so many workers as the largest one has, and so many as control.scale compares with, lease
// from bare masters (bare_master.h), which do nothing but receive and send the same bytes: what the kernel
// takes, and so the limit. They run under both scheduling policies; the real ones choose theirs themselves.
//
// Master and members share the machine's cores, so rates by the clock say little. What is compared is the
// processor time that the master's process took, with all its threads: of connections, actors, log.
//   control.leases_per_second  leases in one second of the master's processor time (always, most workers)
//   control.heartbeat_p99_ms   from the request's send to its answer, as members see it (paced, most
//   workers),
//                              or while all of them join at once, whichever is longer
//   control.member_kib         of the master's resident memory, at most, over what it was with 10 workers
//   control.scale              processor time of a lease with most workers over that with 100, in the same
//                              round: always or paced, whichever is larger. Without what idle members cost,
//                              which is measured in the same round, and reported (idle_cpu). The bare
//                              program's is reported beside (scale.bare)
//   control.status_ms          from the start of embers status to its end, always, most workers; 21 times
// Values are medians over the rounds; the report has their ranges, too.
#include <arpa/inet.h>

#include <algorithm>
#include <map>

#include "apps/process/open_files.h"
#include "apps/process/private_folder.h"
#include "base/errors.h"
#include "bench/control/crowd.h"
#include "bench/control/job.h"
#include "bench/control/owners.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/processes.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kOwners = 100;
constexpr size_t kFirst = 10;          // workers with which a job begins
constexpr double kPatience = 60;       // seconds, for what takes a moment
constexpr double kJoinLook = 1;        // seconds after a join that still count as its time
constexpr size_t kRoomForSocket = 64;  // in the folder's path

struct Size {
  std::vector<size_t> workers;  // the first but one is compared with the last
  size_t small;                 // that control.scale compares with
  int rounds;
  double seconds;  // of a measurement
  double rate;     // paced: leases a second
  int looks;       // at the job by embers status
};
const Size kFull{{10, 100, 1000, 4000}, 100, 7, 2, 5000, 21};
const Size kQuick{{10, 50}, 10, 3, 0.3, 1000, 3};

// What was measured in one span of time.
struct Span {
  double cpu_us;                                    // of the master, a lease
  double per_second;                                // leases, by the clock
  double beat_p50, beat_p99, lease_p50, lease_p99;  // ms
};

// A master and its members.
struct Side {
  Side(CrowdLoop& loop, const std::string& dir, size_t workers)
      : workers(workers), master(dir, kOwners, kFirst, 1), job(master.job()) {
    crowd = std::make_unique<Crowd>(loop, job);
    owners = std::make_unique<SimulatedOwners>(kOwners, job->run, *job);
  }

  std::function<double()> cpu() const {
    return [this] { return master.cpu_seconds(); };
  }

  const size_t workers;
  MasterProcess master;
  const std::shared_ptr<const ControlJob> job;
  std::unique_ptr<SimulatedOwners> owners;
  std::unique_ptr<Crowd> crowd;
  std::vector<Span> always, paced;
  std::vector<double> status_ms;
  std::vector<double> idle_cpu;  // share of a core, while nobody leases; of each round
  size_t bytes_before = 0;       // with kFirst workers
  Json joined;
};

template <class Get>
std::vector<double> each(const std::vector<Span>& spans, Get get) {
  std::vector<double> values;
  for (const Span& span : spans) values.push_back(get(span));
  return values;
}
template <class Get>
Json range(const std::vector<Span>& spans, Get get) {
  return spread(each(spans, get));
}

Json to_json(const std::vector<Span>& spans) {
  return {{"cpu_us_per_lease", range(spans, [](const Span& s) { return s.cpu_us; })},
          {"leases_per_cpu_second", range(spans, [](const Span& s) { return 1e6 / s.cpu_us; })},
          {"leases_per_second", range(spans, [](const Span& s) { return s.per_second; })},
          {"heartbeat_p50_ms", range(spans, [](const Span& s) { return s.beat_p50; })},
          {"heartbeat_p99_ms", range(spans, [](const Span& s) { return s.beat_p99; })},
          {"lease_p50_ms", range(spans, [](const Span& s) { return s.lease_p50; })},
          {"lease_p99_ms", range(spans, [](const Span& s) { return s.lease_p99; })}};
}

void wait_for(CrowdLoop& loop, Crowd& crowd, const std::string& what, const std::function<bool()>& over) {
  const bool came = loop.run(std::chrono::duration<double>(kPatience), [&] {
    crowd.check();
    return over();
  });
  if (!came)
    fail(ErrorCode::kTimeout, "a crowd of {} members is not {} after {} s", crowd.joined(), what, kPatience);
}

void wait_for_members(CrowdLoop& loop, Crowd& crowd, size_t members) {
  wait_for(loop, crowd, fmt::format("{} strong", members), [&] { return crowd.joined() == members; });
}

// `cpu_seconds`: of the crowd's master.
Span measure(CrowdLoop& loop, Crowd& crowd, const std::function<double()>& cpu_seconds, double seconds) {
  loop.run(std::chrono::duration<double>(seconds / 4));  // until it goes evenly
  crowd.take_counts();
  const double cpu = cpu_seconds();
  const auto begin = BenchClock::now();
  loop.run(std::chrono::duration<double>(seconds));
  const double took = seconds_since(begin), spent = cpu_seconds() - cpu;
  const Crowd::Counts counts = crowd.take_counts();
  crowd.check();
  // Of heartbeats that were never answered there is no latency.
  if (seconds >= 1 &&
      static_cast<double>(counts.beats.size()) < static_cast<double>(crowd.joined()) * took / 2)
    fail(ErrorCode::kTimeout, "the master answered only {} heartbeats of {} members in {:.1f} s",
         counts.beats.size(), crowd.joined(), took);
  const auto leases = static_cast<double>(counts.leases);
  return {spent / leases * 1e6,
          leases / took,
          counts.beats.percentile(0.5),
          counts.beats.percentile(0.99),
          counts.lease_waits.percentile(0.5),
          counts.lease_waits.percentile(0.99)};
}

void rest(CrowdLoop& loop, Crowd& crowd) {
  crowd.rest();
  wait_for(loop, crowd, "at rest", [&] { return crowd.working() == 0; });
}

void begin(CrowdLoop& loop, Side& side) {
  side.crowd->add_owners(side.owners->addresses());
  wait_for_members(loop, *side.crowd, kOwners);
  side.crowd->add_workers(kFirst);
  wait_for_members(loop, *side.crowd, kOwners + kFirst);
  side.crowd->lease_always();
  loop.run(std::chrono::duration<double>(0.3));
  rest(loop, *side.crowd);
  side.bytes_before = side.master.resident_bytes();
  side.master.forget_most();
}

// All the others join at once, while the first ones work.
void join(CrowdLoop& loop, Side& side, double rate) {
  side.crowd->lease_at(rate);
  loop.run(std::chrono::duration<double>(0.2));
  side.crowd->take_counts();
  const size_t attempts = side.crowd->attempts();
  const double cpu = side.master.cpu_seconds();
  const auto begin = BenchClock::now();
  side.crowd->add_workers(side.workers - kFirst);
  wait_for_members(loop, *side.crowd, kOwners + side.workers);
  const double took = seconds_since(begin);
  loop.run(std::chrono::duration<double>(kJoinLook));
  const Crowd::Counts counts = side.crowd->take_counts();
  side.joined = {{"workers", side.workers - kFirst},
                 {"seconds", took},
                 {"cpu_seconds", side.master.cpu_seconds() - cpu},
                 {"attempts", side.crowd->attempts() - attempts},
                 {"join_p50_ms", counts.joins.percentile(0.5)},
                 {"join_p99_ms", counts.joins.percentile(0.99)},
                 {"heartbeats", counts.beats.size()},
                 {"heartbeat_p50_ms", counts.beats.percentile(0.5)},
                 {"heartbeat_p99_ms", counts.beats.percentile(0.99)},
                 {"heartbeat_most_ms", counts.beats.percentile(1)}};
  fmt::print("{} workers joined {}\n", side.workers, side.joined.dump());
  rest(loop, *side.crowd);
}

// How long `embers status --json` takes from its start to its end while the master has all the work that it
// can take: ms, each time.
std::vector<double> time_status(CrowdLoop& loop, Side& side, int times) {
  side.crowd->lease_always();
  loop.run(std::chrono::duration<double>(0.5));
  std::vector<double> took;
  for (int i = 0; i < times; ++i) {
    const auto begin = BenchClock::now();
    StatusCommand status(side.master.job_dir());
    wait_for(loop, *side.crowd, "shown by embers status", [&] { return !status.is_running(); });
    took.push_back(1e3 * seconds_since(begin));
    if (status.members() != side.workers + kOwners)
      fail(ErrorCode::kInternal, "embers status shows {} members of {}", status.members(),
           side.workers + kOwners);
    loop.run(std::chrono::duration<double>(0.1));
  }
  rest(loop, *side.crowd);
  return took;
}

// What heartbeats, pings and order requests of a resting crowd cost.
void measure_idle(CrowdLoop& loop, Side& side, double seconds) {
  const double cpu = side.master.cpu_seconds();
  const auto begin = BenchClock::now();
  loop.run(std::chrono::duration<double>(seconds));
  side.idle_cpu.push_back((side.master.cpu_seconds() - cpu) / seconds_since(begin));
}

void print(const Side& side, const char* mode, const Span& s) {
  fmt::print("{:>6} {:<7} {:>8.1f} {:>9.0f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f}\n", side.workers, mode,
             s.cpu_us, s.per_second, s.beat_p50, s.beat_p99, s.lease_p50, s.lease_p99);
  std::fflush(stdout);
}

double kib_per_member(const Side& side) {
  const double bytes =
      static_cast<double>(side.master.most_resident_bytes()) - static_cast<double>(side.bytes_before);
  return bytes / 1024 / static_cast<double>(side.workers - kFirst);
}

// The limit: the same workers, and nobody's master.
struct Bare {
  Bare(CrowdLoop& loop, size_t workers) : workers(workers), master(BenchChild::part({"bare-master"})) {
    auto job = std::make_shared<ControlJob>();
    job->master.sin_family = AF_INET;
    job->master.sin_port = htons(static_cast<uint16_t>(std::stoi(master.ready())));
    job->master.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    crowd = std::make_unique<Crowd>(loop, std::move(job));
    crowd->add_workers(workers);
    wait_for_members(loop, *crowd, workers);
  }

  const size_t workers;
  const BenchChild master;
  std::unique_ptr<Crowd> crowd;
  std::map<Policy, std::vector<Span>> always;
};

void measure_bare(CrowdLoop& loop, Bare& bare, Policy policy, double seconds) {
  set_policy(bare.master.processes(), policy);
  bare.crowd->lease_always();
  bare.always[policy].push_back(measure(
      loop, *bare.crowd, [&] { return bare.master.cpu_seconds(); }, seconds));
  rest(loop, *bare.crowd);
}

// Processor time of each round's leases, without what the members took who only beat: it grows with members
// and seconds, and falls on the fewer leases the slower the clock makes them.
std::vector<double> net_of_idle(const std::vector<Span>& spans, const std::vector<double>& idle) {
  std::vector<double> net;
  for (size_t i = 0; i < spans.size(); ++i)
    net.push_back(spans[i].cpu_us - 1e6 * idle.at(i) / spans[i].per_second);
  return net;
}
std::vector<double> gross(const std::vector<Span>& spans) {
  return net_of_idle(spans, std::vector<double>(spans.size()));
}

Estimate per_second(const Estimate& seconds) {
  return {1 / seconds.value, 1 / seconds.high, 1 / seconds.low};
}

}  // namespace

int bench_control(const BenchOptions& options) {
  Json report = begin_report("control", options, options.quick ? "quick" : "");
  const Size& size = options.quick ? kQuick : kFull;
  size_t sockets = 256;
  for (const size_t workers : size.workers) sockets += workers + 4 * kOwners;
  sockets += size.workers.back();
  check_open_files(sockets, "the benchmark");
  const PrivateFolder folder(kRoomForSocket);
  CrowdLoop loop;
  std::vector<std::unique_ptr<Side>> sides;
  // All masters first: members of one must not fall silent while this thread waits for the next.
  for (const size_t workers : size.workers)
    sides.push_back(std::make_unique<Side>(loop, folder / std::to_string(workers), workers));
  for (const auto& side : sides) begin(loop, *side);
  for (const auto& side : sides)
    if (side->workers > kFirst) join(loop, *side, size.rate / 2);
  fmt::print("\n                us CPU    leases     heartbeat, ms          lease, ms\n");
  fmt::print("workers        a lease   a second   p50       p99       p50       p99\n");
  Contest contest;  // of processor time
  for (const auto& one : sides)
    contest.add(fmt::format("{} workers", one->workers), "", [&, &side = *one] {
      side.crowd->lease_always();
      print(side, "always", side.always.emplace_back(measure(loop, *side.crowd, side.cpu(), size.seconds)));
      rest(loop, *side.crowd);
      side.crowd->lease_at(size.rate);
      print(side, "paced", side.paced.emplace_back(measure(loop, *side.crowd, side.cpu(), size.seconds)));
      rest(loop, *side.crowd);
      measure_idle(loop, side, size.seconds);
      return Cost{side.always.back().cpu_us * 1e-6, side.always.back().cpu_us * 1e-6};
    });
  Bare bare(loop, size.workers.back()), bare_small(loop, size.small);
  const auto add_bare = [&](const char* side, Bare& one) {
    for (const Policy policy : kPolicies)
      contest.add(side, name(policy), [&, policy] {
        measure_bare(loop, one, policy, size.seconds);
        return Cost{one.always[policy].back().cpu_us * 1e-6, one.always[policy].back().cpu_us * 1e-6};
      });
  };
  add_bare("bare", bare);
  add_bare("bare, few workers", bare_small);
  contest.measure(size.rounds);
  for (const auto& side : sides) {
    side->status_ms = time_status(loop, *side, size.looks);
    Json json{{"workers", side->workers},
              {"status_ms", spread(side->status_ms)},
              {"always", to_json(side->always)},
              {"paced", to_json(side->paced)},
              {"always_net_us", spread(net_of_idle(side->always, side->idle_cpu))},
              {"paced_net_us", spread(net_of_idle(side->paced, side->idle_cpu))},
              {"idle_cpu", spread(side->idle_cpu)},
              {"idle_us_per_member", 1e6 * spread(side->idle_cpu)["median"].get<double>() /
                                         static_cast<double>(side->workers + kOwners)},
              {"threads", side->master.thread_seconds()},
              {"open_files", side->master.open_files()}};
    if (side->workers > kFirst) {
      json["joined"] = side->joined;
      json["member_kib"] = kib_per_member(*side);
    }
    report["grid"].push_back(json);
  }
  const Side& large = *sides.back();
  const Side& small = **std::find_if(sides.begin(), sides.end(),
                                     [&](const auto& side) { return side->workers == size.small; });
  const auto net = [&](std::vector<Span> Side::*load) {
    return ratio_of_medians(net_of_idle(large.*load, large.idle_cpu),
                            net_of_idle(small.*load, small.idle_cpu));
  };
  const Estimate scales[] = {net(&Side::always), net(&Side::paced)};
  const auto json_of = [](const Estimate& e) {
    return Json{{"median", e.value}, {"low", e.low}, {"high", e.high}};
  };
  report["scale"] = {
      {"always", json_of(scales[0])},
      {"paced", json_of(scales[1])},
      {"always_with_idle", json_of(ratio_of_medians(gross(large.always), gross(small.always)))},
      {"paced_with_idle", json_of(ratio_of_medians(gross(large.paced), gross(small.paced)))}};
  report["rate_paced"] = size.rate;
  const double kib = kib_per_member(large);
  const Estimate beats[] = {median_estimate(each(large.paced, [](const Span& s) { return s.beat_p99; })),
                            large.joined["heartbeat_p99_ms"].get<double>()};
  for (const auto& side : sides) {
    side->crowd->expect_end();
    side->master.stop();
    wait_for(loop, *side->crowd, "at its end", [&] { return !side->master.is_running(); });
    const Json result = Json::parse(side->master.report());
    if (result.at("workers_lost") != 0 || result.at("minibatches") != side->job->minibatches->load())
      fail(ErrorCode::kInternal, "{} workers: they did {} minibatches, the master says {}, and {} lost",
           side->workers, side->job->minibatches->load(), result.at("minibatches").dump(),
           result.at("workers_lost").dump());
  }
  bare.crowd->expect_end();
  bare_small.crowd->expect_end();
  const Estimate bare_scale = contest.speed("bare, few workers", "bare");
  report["scale"]["bare"] = bare_scale.value;
  const bool batch = contest.configuration("bare") == name(Policy::kBatch);
  report["bare"] = to_json(bare.always[batch ? Policy::kBatch : Policy::kOther]);
  report["sides"] = contest.json();
  const std::string largest = fmt::format("{} workers", large.workers);
  report["limits"] = {limit("control.leases_per_second", contest.speed(largest, "bare"))};
  report["targets"] = {target("control.leases_per_second", per_second(contest.seconds(largest)), 20000,
                              per_second(contest.seconds("bare"))),
                       target_at_most("control.heartbeat_p99_ms", most(beats), 100),
                       target_at_most("control.member_kib", kib, 64),
                       target_at_most("control.scale", most(scales), 1.5),
                       target_at_most("control.status_ms", median_estimate(large.status_ms), 200)};
  fmt::print("embers status with {} members, all busy: {:.0f} ms\n", large.workers + kOwners,
             median(large.status_ms));
  fmt::print("a lease of the bare program takes {:.2f} times as much with {} workers as with {}\n",
             bare_scale.value, large.workers, small.workers);
  return end_report(report, options);
}

}  // namespace embers
