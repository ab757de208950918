#pragma once

#include "client/pipeline/work.h"
#include "data/minibatch.h"
#include "model/step.h"

namespace embers {

// A minibatch on its way through a worker: what reading and training keep of it.
struct StepWork : Work {
  data::Minibatch minibatch;  // read
  Lookups lookups;            // dedupe; Work::keys views its tables
  StepResult result;          // train; Work::gradients and the others view it

  // What the next stages see of the minibatch and its lookups.
  void show_lookups();
  // ... and of the result.
  void show_result();
};

// Every work of a worker is one.
inline StepWork& step_work(const WorkPtr& work) { return static_cast<StepWork&>(*work); }

}  // namespace embers
