#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/plan/worker.h"
#include "client/session.h"

namespace embers::plan {

// Where the processes of a job that measures are. By default all are on this host, and the only worker is
// this process; it talks to the shards over TCP, as between hosts.
struct Surroundings {
  using Words = std::vector<std::string>;

  uint32_t workers = 1;  // of a sync job each takes one minibatch of every version

  // What follows is for hosts beyond this one, and needed there.
  std::string master;  // HOST:PORT that it listens on; no secret is used
  // The words that run the command of the `number`th "master" or "shard" on its host.
  std::function<Words(const std::string& role, uint32_t number, const Words& command)> place;
  // The `number`th worker, on its host. It need not have joined: others may have to join first.
  std::function<std::unique_ptr<Worker>(uint32_t number, const client::WorkerOptions& options)> worker;
};

}  // namespace embers::plan
