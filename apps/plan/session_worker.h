#pragma once

#include <string_view>
#include <vector>

#include "apps/plan/worker.h"
#include "client/session.h"

namespace embers::plan {

// A worker in this process.
class SessionWorker : public Worker {
 public:
  // Joins the job. Its options have the tables by their numbers, and work.
  explicit SessionWorker(const client::WorkerOptions& options);
  ~SessionWorker() override;

  void start(std::span<const Minibatch> minibatches, size_t steps, uint64_t first) override;
  // Takes all steps; start() only says which.
  Step finish() override;

 private:
  // Keys of a minibatch as the session takes them.
  struct Lists {
    std::vector<client::TableKeys> keys;
    std::vector<std::vector<std::string_view>> bytes;
    std::vector<std::span<const float>> gradients;
  };
  Lists lists_of(const Minibatch& minibatch) const;

  std::vector<client::TableSpec> tables_;
  client::Session session_;
  std::vector<float> gradients_;
  std::vector<Lists> lists_;
  size_t steps_ = 0;
  uint64_t first_ = 0;
};

}  // namespace embers::plan
