#pragma once

#include "cuda/model.h"

// How a launch shares out its work. Work lies on a line: ids and bags in the forward pass, sorted items in
// the backward pass. The line is cut into *units* of 2^shift places, and a group takes a unit. *Runs* (bags,
// rows) lie on the line one after another. The unit in which a run begins owns it and follows it to its end,
// unless it is *long*: it is then cut where units end. So a group has at most two units of work, whatever the
// lengths of runs are.
namespace embers::cuda {

// Whether a run of places [begin, end) is long: it has at least one unit for itself, and a place beyond it.
EMBERS_BOTH bool is_long(int begin, int end, int shift) { return end > ((begin >> shift) + 2) << shift; }

struct Units {
  int first, last;  // that have places of the part
};
EMBERS_BOTH Units units_of(int begin, int end, int shift) { return {begin >> shift, (end - 1) >> shift}; }

// Tasks of a part (a column or a table) whose places are [begin, end): a warp takes as many units as it has
// groups.
EMBERS_BOTH int tasks_of(int begin, int end, int shift, int lanes) {
  if (begin == end) return 0;
  const Units units = units_of(begin, end, shift);
  const int groups = kWarp / lanes;
  return (units.last - units.first + groups) / groups;
}

// first[i] becomes the number of tasks of the parts before i, by all threads of a block. first[0 .. parts].
template <class TasksOf>
EMBERS_DEVICE void share_out(int parts, int* first, TasksOf tasks_of_part) {
  for (int i = thread_index(); i < parts; i += threads()) first[i + 1] = tasks_of_part(i);
  sync_block();
  if (thread_index() == 0) {
    first[0] = 0;
    for (int i = 0; i < parts; ++i) first[i + 1] += first[i];
  }
  sync_block();
}

// The part to which a task belongs: the last i with first[i] <= task.
EMBERS_BOTH int part_of(const int* first, int parts, int task) {
  int low = 0, high = parts - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (first[middle] <= task) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// The first of the numbers [0, count) for which start(number) >= place, or count; start ascends. For two
// places at once, by a whole warp: each half of it tries sixteen numbers at a time.
struct TwoNumbers {
  int a, b;
};
template <class Start>
EMBERS_DEVICE TwoNumbers first_from(int count, int place_a, int place_b, Start start) {
  const int lane = thread_index() % kWarp, half = lane / 16, tried = lane % 16;
  const int place = half == 0 ? place_a : place_b;
  int low = 0, high = count;
  while (ballot(kWholeWarp, low < high) != 0) {
    const auto at = [&](int k) {
      return low + static_cast<int>(static_cast<int64_t>(high - low) * (k + 1) / 17);
    };
    const bool below = low < high && start(at(tried)) < place;
    const int k = ones(ballot(kWholeWarp, below) >> (16 * half) & 0xffffu);
    if (low == high) continue;
    const int next_low = k == 0 ? low : at(k - 1) + 1;
    high = k == 16 ? high : at(k);
    low = next_low;
  }
  return {shuffle(kWholeWarp, low, 0), shuffle(kWholeWarp, low, 16)};
}

// The same for one thread, within [low, high].
template <class Start>
EMBERS_DEVICE int first_from_between(int low, int high, int place, Start start) {
  while (low < high) {
    const int middle = (low + high) / 2;
    if (start(middle) < place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace embers::cuda
