#pragma once

#include <exception>

#include "cuda/embers_cuda.h"

namespace embers::cuda {

void remember_error(const char* what);

// Runs what a function of the C interface does, and returns its status.
template <class Body>
int call(Body body) {
  try {
    body();
    return 0;
  } catch (const std::exception& e) {
    remember_error(e.what());
    return EMBERS_CUDA_ERROR;
  }
}

}  // namespace embers::cuda
