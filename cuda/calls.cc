#include "cuda/calls.h"

#include <string>

namespace embers::cuda {
namespace {
thread_local std::string last_error;
}

void remember_error(const char* what) { last_error = what; }

}  // namespace embers::cuda

extern "C" const char* embers_cuda_error(void) { return embers::cuda::last_error.c_str(); }
