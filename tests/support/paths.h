#pragma once

#include <filesystem>
#include <string>

namespace embers::testing_support {

// The absolute path of what lies there, seen from the folder of the test program. What tests are compiled with is
// relative, so that another clone's build is the same to the compiler's cache.
inline std::string path_of(const std::string& from_here) {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (here / from_here).lexically_normal().string();
}

}  // namespace embers::testing_support
