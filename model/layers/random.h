#pragma once

#include <cstdint>
#include <mutex>

namespace embers {

// torch has one default generator per process. It is held while a model is built, so that models built by
// several threads at once have equal initial parameters.
std::unique_lock<std::mutex> hold_torch_random();

// Seeds it; waits while a model is being built. Called before each training pass, so that the random layers
// of libtorch draw the same numbers for a minibatch as long as a process has one trainer (embers::Dropout
// does not need that).
void seed_torch(uint64_t seed);

}  // namespace embers
