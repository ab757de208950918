#pragma once

#include <memory>

#include "client/pipeline/session_actor.h"
#include "data/dataset.h"
#include "model/step.h"

namespace embers {

// Everything a worker needs to know, constant after its start: a session's configuration, whose model,
// numeric settings and parts the worker fills in itself.
struct WorkerConfig : SessionConfig {
  std::shared_ptr<ModelRunner> runner;
  std::shared_ptr<const data::Dataset> train, test;
};

// (leave) finishes what is under way and goes.
using WorkerActor = SessionActor;

// Spawns a worker: a session whose minibatches are read from data files and computed by the model.
WorkerActor spawn_worker(caf::actor_system& system, std::shared_ptr<const WorkerConfig> config);

}  // namespace embers
