#pragma once

// A worker's program: what it pulls, pushes and finishes.
#include "tests/client/running_job.h"

namespace embers::testing_support {

inline const std::vector<int64_t> kKeys{5, -3, 1000003};
inline const std::vector<std::string_view> kWords{"a", "bc"};

inline void pull(client::Minibatch& minibatch) {
  const client::TableKeys lists[] = {{.table = "user", .ints = kKeys}, {.table = "word", .bytes = kWords}};
  minibatch.pull(lists);
}

// Gradients: 1 for rows of "user", none for "word", (1, 2, 3) for "w".
inline void push(client::Minibatch minibatch) {
  const std::vector<float> user(kKeys.size() * kUserDim, 1), w{1, 2, 3}, scores(2, 0.5f), labels{0, 1};
  const std::span<const float> rows[] = {user, {}}, parameters[] = {w};
  minibatch.push(rows, parameters, {.examples = 2, .loss_sum = 3, .scores = scores, .labels = labels});
}

inline void finish(client::Minibatch minibatch) {
  const std::vector<float> scores{0.1f, 0.9f}, labels{0, 1};
  const std::vector<uint64_t> records{2 * minibatch.number(), 2 * minibatch.number() + 1};
  minibatch.finish({.examples = 2, .loss_sum = 1, .scores = scores, .labels = labels, .records = records});
}

// Computes all that it is given; returns how many minibatches it trained.
inline size_t work(client::Session& session) {
  size_t trained = 0;
  while (client::Minibatch minibatch = session.lease()) {
    pull(minibatch);
    if (!minibatch.wait()) continue;
    trained += !minibatch.evaluate();
    minibatch.evaluate() ? finish(std::move(minibatch)) : push(std::move(minibatch));
  }
  return trained;
}

}  // namespace embers::testing_support
