#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/pipeline/work.h"
#include "tests/support/actors.h"
#include "tests/support/simulation.h"

namespace embers::testing_support {

// What comes out of a stage, as it comes.
template <class T>
using Arrivals = std::vector<T>;

using Finished = Arrivals<WorkPtr>;
using Failures = Arrivals<StageFailure>;

// The stage after the one that is tested.
inline StageActor::behavior_type collector(StageActor::pointer, std::shared_ptr<Finished> finished) {
  return {[finished](const WorkPtr& work) { finished->push_back(work); }};
}

inline StageOwner::behavior_type note_failures(StageOwner::pointer, std::shared_ptr<Failures> failures) {
  return {[](pushed_atom) {}, [](const WorkPtr&) {},
          [failures](const StageFailure& f) { failures->push_back(f); }};
}

}  // namespace embers::testing_support
