// A master whose workers send the scores of a big evaluation, while another member asks it for a sign of life
// all the time.
//   evaluation/<scores>   scores of random records, in minibatches of 16384
// "longest_ms" is the longest time that one answer took, "median_ms" the median; "peak_MiB" is the memory of
// the process. Run it with one number of scores at a time, since the peak is that of all that ran before.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "tests/master/master_testing.h"

namespace embers {
namespace {

using namespace testing_support;

constexpr uint32_t kBatch = 16384;

Message<wire::DoneRequest> scored(const Lease& lease, unsigned i, uint64_t incarnation) {
  const auto part = lease.get().getMinibatches()[i];
  std::mt19937 random(static_cast<uint32_t>(part.getMinibatch()));
  std::vector<float> scores(kBatch), labels(kBatch);
  std::vector<uint64_t> records(kBatch);
  for (uint32_t n = 0; n < kBatch; ++n) {
    scores[n] = static_cast<float>(random() >> 8) / (1 << 24);
    labels[n] = random() % 4 == 0 ? 1.0f : 0.0f;
    records[n] = part.getMinibatch() * kBatch + n;
  }
  return make_message<wire::DoneRequest>([&](wire::DoneRequest::Builder b) {
    b.setIncarnation(incarnation);
    b.setLease(lease.get().getLease());
    b.setMinibatch(part.getMinibatch());
    b.setAttempt(part.getAttempt());
    b.setExamples(kBatch);
    b.setLossSum(1);
    b.setScores(as_data(scores));
    b.setLabels(as_data(labels));
    b.setRecords(as_data(std::span<const uint64_t>(records)));
  });
}

// Milliseconds that each answer took, until `over`.
std::vector<double> answer_times(Job& job, const std::atomic<bool>& over) {
  Worker member(job);
  std::vector<double> times;
  while (!over) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      member.beat();
    } catch (const Error&) {  // the job has ended
      break;
    }
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    std::this_thread::sleep_for(200us);
  }
  return times;
}

void evaluation(benchmark::State& state) {
  for (auto _ : state) {
    Job job({.minibatches = 1,
             .test_minibatches = static_cast<uint32_t>(state.range(0) / kBatch),
             .heartbeat_timeout = 600,
             .change = [](MasterConfig& c) { c.job.training.batch_size = kBatch; }});
    Worker worker(job);
    worker.finish(worker.lease());
    std::atomic<bool> over = false;
    auto times = std::async(std::launch::async, [&] { return answer_times(job, over); });
    caf::scoped_actor self{job.system_};
    for (Lease lease = worker.lease(); lease.get().getKind() != Kinds::END; lease = worker.lease())
      for (unsigned i = 0; i < lease.get().getMinibatches().size(); ++i)
        ask(self.ptr(), job.master_, scored(lease, i, worker.incarnation()));
    over = true;
    std::vector<double> answers = times.get();
    worker.leave();
    const JobResult result = job.result();
    std::sort(answers.begin(), answers.end());
    state.counters["longest_ms"] = answers.back();
    state.counters["median_ms"] = answers[answers.size() / 2];
    state.counters["auc"] = result.report.total.auc;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
  }
}

BENCHMARK(evaluation)
    ->Arg(1'000'000)
    ->Arg(50'000'000)
    ->Arg(200'000'000)
    ->Unit(benchmark::kSecond)
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
}  // namespace embers
