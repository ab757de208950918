#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace embers {

// CPUs that threads are bound to, by the numbers that Linux gives them.

// The CPUs on which this thread may run (taskset, a container's cpuset), ascending.
std::vector<int> allowed_cpus();

// A list as taskset takes it: numbers and ranges between commas, "0,2-3", in the order given. kInvalid names
// whatever is neither a number nor a range, a CPU that is named twice, or one that is not in `allowed`; in
// the last case it also lists those that are.
std::vector<int> parse_cpus(const std::string& list, const std::vector<int>& allowed);

// The CPU of the k-th owner of a process: the list is dealt out in turn. None if the list is empty.
inline std::optional<int> cpu_of(const std::vector<int>& cpus, size_t k) {
  return cpus.empty() ? std::nullopt : std::optional<int>(cpus[k % cpus.size()]);
}

// Binds the calling thread, and the threads that it starts from now on, to one CPU. kInvalid when the system
// refuses.
void bind_thread(int cpu);

}  // namespace embers
