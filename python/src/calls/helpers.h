#pragma once

#include <functional>

namespace embers::python {

// Runs `work` in a thread of this module's. Threads that have nothing to do are kept for the next work; none
// of them is ever joined, since Python may exit while one is in the middle of something.
void run_in_helper(std::function<void()> work);

}  // namespace embers::python
