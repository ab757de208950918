#include "apps/plan/session_worker.h"

#include <algorithm>
#include <chrono>

#include "apps/plan/tcp_traffic.h"
#include "base/errors.h"

namespace embers::plan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr float kScores[] = {0};  // of a record

// A gradient that differs from row to row and from column to column.
float gradient(size_t i) {
  return 1e-3f * static_cast<float>(static_cast<int>(i * 2654435761U % 2001) - 1000);
}

uint64_t hash_rows(const client::Minibatch& minibatch, size_t parts) {
  std::vector<float> all;
  for (size_t p = 0; p < parts; ++p) {
    const std::span<const float> rows = minibatch.rows(p);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return hash_key(std::string_view(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(float)));
}

}  // namespace

SessionWorker::SessionWorker(const client::WorkerOptions& options)
    : tables_(options.tables), session_(client::Session::join_as_worker(options)) {}
SessionWorker::~SessionWorker() { session_.close(); }

SessionWorker::Lists SessionWorker::lists_of(const Minibatch& minibatch) const {
  Lists lists;
  lists.bytes.resize(minibatch.size());
  for (size_t p = 0; p < minibatch.size(); ++p) {
    const Part& part = minibatch[p];
    client::TableKeys keys;
    keys.table = tables_.at(part.table).name;
    keys.ints = part.keys.ints;
    for (size_t i = 0; part.keys.kind == KeyKind::kBytes && i < part.keys.size(); ++i)
      lists.bytes[p].push_back(part.keys.bytes_at(i));
    keys.bytes = lists.bytes[p];
    lists.keys.push_back(keys);
  }
  return lists;
}

void SessionWorker::start(std::span<const Minibatch> minibatches, size_t steps, uint64_t first) {
  steps_ = steps;
  first_ = first;
  const auto floats = [&](const Part& part) { return part.keys.size() * tables_.at(part.table).dim; };
  size_t most = 0;
  for (const Minibatch& minibatch : minibatches)
    for (const Part& part : minibatch) most = std::max(most, floats(part));
  for (size_t i = gradients_.size(); i < most; ++i) gradients_.push_back(gradient(i));
  lists_.clear();
  for (const Minibatch& minibatch : minibatches) {
    lists_.push_back(lists_of(minibatch));
    for (const Part& part : minibatch)
      lists_.back().gradients.push_back(std::span<const float>(gradients_).first(floats(part)));
  }
}

Step SessionWorker::finish() {
  Step step;
  Clock::time_point begin;
  TcpTraffic before;
  const size_t last = kFirstSteps + steps_ - 1;
  for (size_t i = 0; i <= last;) {
    client::Minibatch minibatch = session_.lease();
    if (!minibatch) fail(ErrorCode::kInternal, "the job that measures has come to its end");
    const Lists& list = lists_[(minibatch.number() - first_) % lists_.size()];
    const uint64_t number = minibatch.number();
    minibatch.pull(list.keys);
    if (!minibatch.wait()) continue;  // stale: leased again
    if (i == kFirstSteps - 1) {
      before = TcpTraffic::now();
      begin = Clock::now();
    }
    if (i == last) {
      const std::chrono::duration<double> taken = Clock::now() - begin;
      const TcpTraffic now = TcpTraffic::now();
      const auto n = static_cast<double>(steps_);
      step = {taken.count() / n, static_cast<double>(now.sent - before.sent) / n,
              static_cast<double>(now.received - before.received) / n, number,
              hash_rows(minibatch, list.keys.size())};
    }
    minibatch.push(list.gradients, {}, {.examples = 1, .scores = kScores});
    ++i;
  }
  return step;
}

}  // namespace embers::plan
