#pragma once

#include <string>
#include <vector>

namespace embers {

// embers is several programs, which lie beside each other, so that one that computes nothing need not load
// libtorch. The path of the one of this name.
std::string program_beside(const std::string& name);

// Turns this process into that program, called by these words, the first of which names it to people (ps):
// the process keeps its number, its parent and its standard streams. Throws, naming the path, where it cannot
// be started.
[[noreturn]] void become(const std::string& name, const std::vector<std::string>& words);

}  // namespace embers
