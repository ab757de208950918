#pragma once

#include <algorithm>
#include <memory>

#include "master/master.h"

namespace embers::testing_support {

// Of run 7; dense parameters, which take one chunk, begin with 0.5.
inline std::shared_ptr<MasterConfig> master_config(const job::Job& job, const ModelSpec& model,
                                                   uint64_t minibatches, uint64_t test_minibatches) {
  auto config = std::make_shared<MasterConfig>();
  config->job = job;
  config->run = 7;
  config->model = model;
  auto dense = std::make_shared<FloatBuffer>(kDenseChunk);
  std::fill(dense->span().begin(), dense->span().end(), 0.5f);
  config->dense = dense;
  config->buffers = std::make_shared<FloatBuffer>();
  config->workers = job.training.workers;
  config->shards = job.storage.shards;
  config->train_minibatches = minibatches;
  config->train_records = job.training.batch_size * minibatches;
  config->test_minibatches = test_minibatches;
  return config;
}

}  // namespace embers::testing_support
