#pragma once

#include <cstdint>

// What the kernels of this folder use of CUDA. Compiled by nvcc, these are CUDA's own; compiled by a C++
// compiler, cpu/lanes.h takes their place, so that the very same kernels run in tests on machines without a
// GPU.
#if defined(__CUDACC__)
#include "cuda/gpu_lanes.h"
#else
#include "cuda/cpu/lanes.h"
#endif

namespace embers::cuda {

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

// `lanes` neighbouring lanes of a warp, a power of two, that work on one row together.
struct Group {
  int lane;       // of this thread, within the group
  int lanes;      // their number
  int first;      // its first lane, within the warp
  int number;     // of the group, within the warp
  unsigned bits;  // as many ones as there are lanes
};

// How many lanes work on a row of dim numbers, each with `wide` neighbouring ones.
constexpr EMBERS_BOTH int lanes_for(int dim, int wide) {
  int lanes = 4;  // at least: each looks into an id, too
  while (lanes < kWarp && lanes * wide < dim) lanes *= 2;
  return lanes;
}

EMBERS_DEVICE Group group_of(int lanes) {
  const int lane = thread_index() % kWarp, first = lane & ~(lanes - 1);
  return {lane - first, lanes, first, first / lanes, lanes == kWarp ? kWholeWarp : (1u << lanes) - 1};
}

// What follows is for all lanes of a warp at once: lanes that have nothing to do take part, too. (With masks
// of single groups, compilers make loops over the masks.)

// Sum over the lanes of a group, in each of them, in the same order on every device.
EMBERS_DEVICE float sum_over(const Group& group, float x) {
  for (int distance = group.lanes / 2; distance > 0; distance /= 2) x += shuffle_xor(kWholeWarp, x, distance);
  return x;
}

// A bit for each lane of the group: whether x holds there.
EMBERS_DEVICE unsigned votes(const Group& group, bool x) {
  return ballot(kWholeWarp, x) >> group.first & group.bits;
}

// What a lane of the group has, in each of them.
template <class T>
EMBERS_DEVICE T from_lane(const Group& group, T x, int lane) {
  return shuffle(kWholeWarp, x, group.first + lane);
}

// Whether x holds in any lane of the warp.
EMBERS_DEVICE bool anywhere(bool x) { return ballot(kWholeWarp, x) != 0; }

}  // namespace embers::cuda
