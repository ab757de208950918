#pragma once

#include <string>
#include <vector>

namespace embers {

// embers is several programs in one folder, so that a command that computes nothing does not have to load
// libtorch. The path of the program with this name.
std::string program_beside(const std::string& name);

// Turns this process into that program, called with these words, the first of which is the name that people
// see (ps): the process keeps its number, its parent and its standard streams. Throws, naming the path, if it
// cannot be started.
[[noreturn]] void become(const std::string& name, const std::vector<std::string>& words);

}  // namespace embers
