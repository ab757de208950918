#include "apps/process/program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/errors.h"

namespace embers {

std::string program_beside(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

void become(const std::string& name, const std::vector<std::string>& words) {
  const std::string path = program_beside(name);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  fail(file_error_code(errno),
       "cannot start {}: {}; it must be in the folder of this program: build or install all of embers", path,
       std::strerror(errno));
}

}  // namespace embers
